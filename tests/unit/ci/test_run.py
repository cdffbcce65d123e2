"""``.ci/run`` and ``.ci/all`` themselves, on a machine whose `make` and other programs are stand-ins."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_NEEDED = ["bash", "cat", "cut", "dirname", "env", "grep", "mkdir", "mktemp", "nice", "rm", "sed", "sleep", "tail"]
_NEEDED += ["timeout"]
_PYTHONS = ("python3.12", "python3.13")
_GATE = ["venv", "lint", "types", "contracts", "docs", "light", "newcomer"]
#: Program -> the stages that need it, and have another name.
_STAGES = {
    "python3.10": ["airflow-lowest", "browser-lowest", "lowest-unit"],
    "chromium": ["browser", "browser-lowest"],
    "apt-get": ["cluster"],
}
_REPORT = '<testsuites><testsuite><testcase name="one"/></testsuite></testsuites>'
# Notes each target, does what the test wants of it, and leaves the report that pytest would.
_MAKE = f"""\
#!/bin/bash
echo "$1 CI=$CI ARGS=${{ARGS:-}} $*" >>"$FAKE/made"
eval "${{FAKE_MAKE:-}}"
[ -z "${{PYTEST_ADDOPTS:-}}" ] || echo '{_REPORT}' >"${{PYTEST_ADDOPTS#--junitxml=}}"
"""


class Machine:
    """Programs that a machine has; ``run`` runs .ci/all there and gives its exit code and its closing table."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs, self.temporary = folder, folder / "bin", folder / "tmp"
        self.programs.mkdir()
        self.temporary.mkdir()
        for name in _NEEDED:
            (self.programs / name).symlink_to(shutil.which(name))
        self.add("make", _MAKE)
        self.add("id", "#!/bin/sh\necho 0\n")
        self.add("python3.11", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        for name in ("apt-get", "chromium", "python3.10", *_PYTHONS):
            self.add(name, "#!/bin/sh\n")
        checkout = folder / "checkout"
        for name in (".ci/all", ".ci/run", ".ci/stages", "tools/__init__.py", "tools/closing_table.py"):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_ROOT / name, checkout / name)

    def add(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def remove(self, name: str) -> None:
        (self.programs / name).unlink()

    def run(self, *stages: str, script: str = "all", **variables: str) -> tuple[int, dict[str, str]]:
        done = self.call(*stages, script=script, **variables)
        table = done.stdout.partition("\nstage ")[2].splitlines()[1:]
        return done.returncode, {line.split()[0]: line for line in table}

    def call(self, *stages: str, script: str = "all", **variables: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": str(self.programs),
            "HOME": str(self.folder),
            "TMPDIR": str(self.temporary),
            "FAKE": str(self.folder),
            **variables,
        }
        argv = [str(self.programs / "bash"), str(self.folder / "checkout" / ".ci" / script), *stages]
        done = subprocess.run(argv, env=env, check=False, capture_output=True, text=True, timeout=120)
        print(done.stdout, done.stderr)
        assert not list(self.temporary.iterdir())
        return done

    @property
    def made(self) -> list[str]:
        return (self.folder / "made").read_text().splitlines()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_gate_holds_what_decides_and_is_green(machine):
    code, table = machine.run(script="run")

    assert code == 0
    assert list(table) == [*_GATE, "all"]
    assert table["light"].split()[2:] == ["1", "1", "0", "0", "ok"]


def test_the_gate_is_over_at_its_deadline(machine):
    run = machine.folder / "checkout" / ".ci" / "run"
    run.write_text(run.read_text().replace("deadline=1500", "deadline=2"))

    code, table = machine.run(script="run", FAKE_MAKE='[ "$1" != lint ] || sleep 100')

    assert (code, "FAILED (124)" in table["lint"]) == (1, True)


def test_all_tiers_run_and_the_run_is_green(machine):
    code, table = machine.run()

    assert code == 0
    aside = ["heavy", "lowest-unit", *_PYTHONS]
    tiers = ["airflow-lowest", "browser", "browser-lowest", "cluster", *aside]
    assert list(table) == [*_GATE, *tiers, "all"]
    assert all(table[tier].split()[2:] == ["1", "1", "0", "0", "ok"] for tier in ["light", *tiers])


def test_each_stage_can_be_run_by_itself(machine):
    names = machine.call("--list").stdout.split()
    code, table = machine.run()
    assert (code, names) == (0, list(table)[:-1])

    for name in ("light", "browser", "cluster", "python3.13"):
        code, table = machine.run(name)
        assert (code, list(table)) == (0, [name, "all"])


def test_a_stage_that_there_is_not_is_refused_before_anything_runs(machine):
    done = machine.call("lint", "lihgt")

    assert done.returncode == 2
    assert 'no stage "lihgt"; there are:\nvenv\nlint\n' in done.stderr
    assert not (machine.folder / "made").exists()


def test_nothing_from_outside_chooses_tests_and_ci_is_set(machine):
    machine.run(ARGS="-k nothing", CI="")

    assert "light" not in machine.made[0]
    assert all(" CI=1 ARGS= " in line for line in machine.made)


def test_the_two_stages_on_the_lowest_airflow_run_the_lowest_python_and_all_that_the_other_pythons_do(machine):
    machine.run()

    made = [line.partition(" ARGS=")[2].partition(" ")[2] for line in machine.made]
    of_lowest = [line.removeprefix("test-airflow-lowest ") for line in made if "test-airflow-lowest" in line]
    (of_3_12,) = [line for line in made if line.startswith("test-python") and line.count("python3.12")]
    python = f"PYTHON={machine.programs / 'python3.10'}"
    tests = of_3_12.partition("ARGS=")[2]
    assert of_lowest == [f"ARGS=tests/airflow {python}", f"ARGS={tests} {python}"]
    assert tests.startswith("tests/unit tests/contract --ignore=tests/unit/ci ")


@pytest.mark.parametrize("name", ["python3.10", *_PYTHONS, "chromium", "apt-get"])
def test_a_tier_that_the_machine_cannot_run_makes_the_run_red_unless_it_is_named(machine, name):
    machine.remove(name)
    if name == "chromium":
        machine.add("apt-get", "#!/bin/sh\nexit 100\n")
    stages = _STAGES.get(name, [name])

    code, table = machine.run()
    assert (code, all("FAILED: " in table[stage] for stage in stages)) == (1, True)

    code, table = machine.run(CI_WITHOUT=" ".join(["docs", *stages]))
    assert (code, all("skipped: " in table[stage] for stage in stages)) == (0, True)
    assert table["docs"].endswith("skipped: CI_WITHOUT names it")


def test_a_run_that_leaves_every_test_out_is_red(machine):
    _, table = machine.run()

    assert machine.run(CI_WITHOUT=" ".join(table))[0] == 1


def test_a_name_that_is_part_of_a_stages_leaves_nothing_out(machine):
    machine.remove("python3.12")

    assert machine.run(CI_WITHOUT="cpython3.12 python3.120")[0] == 1


@pytest.mark.parametrize(
    "make",
    ["exit 2", "exit 0", "kill -9 $$"],
    ids=["fails", "leaves no report", "killed"],
)
@pytest.mark.parametrize(("target", "tier"), [("test", "light"), ("test-python", "python3.12")])
def test_a_tier_whose_pytest_fails_or_is_killed_makes_the_run_red_and_the_others_run(machine, target, tier, make):
    code, table = machine.run(FAKE_MAKE=f'[ "$1" != {target} ] || {make}')

    assert (code, "FAILED" in table[tier]) == (1, True)
    assert table["cluster"].endswith("ok")


def test_each_pytest_of_the_cluster_tier_is_counted(machine):
    make = f"""if [ "$1" = test-cluster ]; then
        for number in 1 2 3; do echo '{_REPORT}' >"$TRAINER_TEST_REPORTS/$number.xml"; done; exit; fi"""

    code, table = machine.run(FAKE_MAKE=make)

    assert (code, table["cluster"].split()[2:4]) == (0, ["3", "3"])


def test_a_check_without_tests_that_fails_makes_the_run_red(machine):
    assert machine.run(FAKE_MAKE='[ "$1" != lint ] || exit 2')[0] == 1
