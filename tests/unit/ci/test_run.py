"""``.ci/run`` and ``.ci/all`` themselves, on a machine whose `make` and other programs are stand-ins."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import paths
from tests.cluster.__main__ import NOT_BUILT
from tools.airflow_runner import settings
from tools.ci.leftovers import CLUSTER_STATE, INSTANCE
from tools.ci.processes import MARK, Process, running
from tools.ci.stages import LEAVE, before_cluster, cluster

_ROOT = Path(__file__).parents[3]
_NEEDED = ["bash", "dirname", "env", "nice", "setsid", "sleep", "touch"]
_FILES = ("tools/__init__.py", "tools/debian_package.sh", "constraints/lowest.txt")
_PYTHONS = ("python3.12", "python3.13")
_GATE = ["venv", "lint", "types", "contracts", "light", "docs", "newcomer", "smoke"]
#: Program -> the stages that need it, and have another name.
_STAGES = {
    "python3.10": ["airflow-lowest", "browser-lowest", "lowest-unit"],
    "chromium": ["browser", "browser-lowest"],
    "pg_ctlcluster": ["postgresql"],
    "apt-get": ["cluster-build", "smoke", "cluster"],
}
_SKIPPED = '<testcase name="two"><skipped message="no Kueue"/></testcase>'
_REPORT = f'<testsuites><testsuite><testcase name="one"/>{_SKIPPED}</testsuite></testsuites>'
# Notes each target, does what the test wants of it, and leaves the report that pytest would.
_MAKE = f"""\
#!/bin/bash
echo "$1 CI=$CI ARGS=${{ARGS:-}} $*" >>"$FAKE/made"
echo "$1 ${{TRAINER_TEST_RUNS_ON:-}}" >>"$FAKE/runs_on"
[ -d "$TMPDIR" ] && echo "$TMPDIR" >>"$FAKE/temporary"
eval "${{FAKE_MAKE:-}}"
[ -z "${{PYTEST_ADDOPTS:-}}" ] || echo '{_REPORT}' >"${{PYTEST_ADDOPTS#--junitxml=}}"
[ -z "${{TRAINER_TEST_REPORTS:-}}" ] || echo tests/unit/test_one.py >"$TRAINER_TEST_REPORTS/collected"
"""

# The environment's Python, which is only asked about the cluster.
_PYTHON = """\
#!/bin/bash
echo "$*" >>"$FAKE/asked"
echo "${FAKE_BUILT:-}"
exit "${FAKE_BUILT_CODE:-0}"
"""

# A process that is far from its stage's own, once it is what it will be.
_LEAVES_SLEEP = "setsid sleep 301 & until read -r name </proc/$!/comm && [ $name = sleep ]; do sleep 0.01; done;"


class Machine:
    """Programs that a machine has; ``run`` runs .ci/all there and gives its exit code and its closing table.

    Its processes have marks of their own, so that no run here ends what runs on the real machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, folder / "bin"
        self.programs.mkdir()
        for name in _NEEDED:
            (self.programs / name).symlink_to(shutil.which(name))
        self.add("make", _MAKE)
        self.add("python3.11", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        for name in ("apt-get", "chromium", "pg_ctlcluster", "python3.10", *_PYTHONS):
            self.add(name, "#!/bin/sh\n")
        self.checkout = folder / "checkout"
        tools = [str(file.relative_to(_ROOT)) for file in (_ROOT / "tools" / "ci").glob("*.py")]
        for name in (".ci/all", ".ci/run", *_FILES, *tools):
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_ROOT / name, self.checkout / name)
        self.add_test("tests/unit/test_one.py")
        (self.checkout / ".venv" / "bin").mkdir(parents=True)
        (self.checkout / ".venv" / "bin" / "python").write_text(_PYTHON)
        (self.checkout / ".venv" / "bin" / "python").chmod(0o755)
        self.mark, self.instance = f"RUN_{uuid.uuid4().hex}", f"INSTANCE_{uuid.uuid4().hex}"
        self.change("processes", f'MARK = "{MARK}"', f'MARK = "{self.mark}"')
        # Another test's run may end now, and begin by removing folders.
        self.change("leftovers", 'FOLDER_PREFIX = "airflow-ci-"', f'FOLDER_PREFIX = "airflow-ci-{self.mark}-"')
        self.change("machine", "NEEDED_GB = 15", "NEEDED_GB = 0")
        self.change("leftovers", f'INSTANCE = "{INSTANCE}"', f'INSTANCE = "{self.instance}"')
        self.change("leftovers", f'Path("{CLUSTER_STATE}")', f'Path("{folder}/cluster")')

    def change(self, module: str, old: str, new: str) -> None:
        """Change tools/ci there."""
        file = self.checkout / "tools" / "ci" / f"{module}.py"
        assert file.read_text().count(old) == 1
        file.write_text(file.read_text().replace(old, new))

    def add(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def add_test(self, name: str) -> None:
        file = self.checkout / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def remove(self, name: str) -> None:
        (self.programs / name).unlink()

    def run(self, *stages: str, script: str = "all", **variables: str) -> tuple[int, dict[str, str]]:
        done = self.call(*stages, script=script, **variables)
        table = done.stdout.partition("\nstage ")[2].splitlines()[1:]
        return done.returncode, {line.split()[0]: line for line in table if not line.startswith(" ")}

    def call(self, *stages: str, script: str = "all", **variables: str) -> subprocess.CompletedProcess[str]:
        with self.start(*stages, script=script, **variables) as run:
            output, errors = run.communicate(timeout=120)
        print(output, errors)
        self.assert_nothing_is_left()
        return subprocess.CompletedProcess(run.args, run.returncode, output, errors)

    def start(
        self, *stages: str, script: str = "run", checkout: Path | None = None, **variables: str
    ) -> subprocess.Popen[str]:
        env = {"PATH": str(self.programs), "HOME": str(self.folder), "FAKE": str(self.folder), **variables}
        # What is left of these runs belongs to the run of CI that they are part of.
        env |= {name: os.environ[name] for name in (MARK,) if name in os.environ}
        argv = [str(self.programs / "bash"), str((checkout or self.checkout) / ".ci" / script), *stages]
        return subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def processes(self) -> list[Process]:
        """All processes there."""
        return [process for process in running() if process.environment.get("FAKE") == str(self.folder)]

    def temporary(self) -> list[str]:
        """The temporary folders of runs there."""
        noted = self.folder / "temporary"
        folders = set(noted.read_text().split()) if noted.exists() else set()
        return [folder for folder in folders if Path(folder).exists()]

    def assert_nothing_is_left(self) -> None:
        assert (self.processes(), self.temporary()) == ([], [])

    def report(self) -> dict[str, Any]:
        """The table of the last run, as JSON."""
        return json.loads((self.checkout / ".ci" / "reports" / "table.json").read_text())

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
    assert table["light"].split()[2:] == ["1", "1", "0", "1", "ok"]
    assert table["all"].endswith("passed")


def test_the_table_is_there_as_json(machine):
    machine.run(script="run", FAKE_MAKE='[ "$1" != docs ] || exit 2')

    report = machine.report()
    rows = {row["stage"]: row for row in report["rows"]}
    assert (report["good"], report["total"]["passed"], list(rows)) == (False, 2, _GATE)
    assert (rows["docs"]["outcome"], rows["light"]["tests"]["skipped"]) == ("FAILED (2)", {"no Kueue": 1})


def test_the_gate_is_over_at_its_deadline(machine):
    machine.change("__main__", "_GATE = 24 * 60", "_GATE = 2")

    code, table = machine.run(script="run", FAKE_MAKE='[ "$1" != lint ] || sleep 100')

    assert (code, "FAILED: over its limit" in table["lint"]) == (1, True)
    assert "FAILED: no time was left" in table["light"]


def test_what_the_gate_has_no_time_for_is_left_to_the_whole_run(machine):
    machine.change("__main__", "_GATE = 24 * 60", "_GATE = 200")

    code, table = machine.run(script="run")

    left = [name for name in _GATE if "left to the whole run" in table[name]]
    assert (code, left) == (0, ["docs", "newcomer", "smoke"])
    assert "docs" not in " ".join(machine.made)


def test_the_gate_leaves_the_smoke_tests_where_no_cluster_is_built(machine):
    why = "no cluster is built on this machine, which lacks kubelet"

    code, table = machine.run(script="run", FAKE_BUILT=why, FAKE_BUILT_CODE="3")

    assert (code, table["smoke"].endswith(f"left to the whole run: {why}")) == (0, True)
    assert "test-smoke" not in " ".join(machine.made)


def test_smoke_tests_that_do_not_end_make_the_gate_red(machine):
    machine.change("stages", "_smoke(8, spare=480", "_smoke(1 / 60, spare=480")

    code, table = machine.run(script="run", FAKE_MAKE='[ "$1" != test-smoke ] || sleep 100')

    assert (code, "FAILED: over its limit of 1 s" in table["smoke"]) == (1, True)


def test_a_question_about_the_cluster_that_fails_makes_the_gate_red(machine):
    code, table = machine.run(script="run", FAKE_BUILT="No module named tests.cluster", FAKE_BUILT_CODE="1")

    assert (code, table["smoke"].endswith("tests.cluster built: No module named tests.cluster")) == (1, True)
    (machine.checkout / ".venv" / "bin" / "python").unlink()
    code, table = machine.run(script="run")
    assert (code, "FAILED: [Errno 2]" in table["smoke"]) == (1, True)


def test_the_whole_run_builds_the_cluster_first_and_asks_nothing(machine):
    code, table = machine.run(FAKE_BUILT_CODE="3")

    made = [line.split()[0] for line in machine.made]
    ours = [name for name in made if name in ("cluster-build", "test-smoke", "test-cluster")]
    assert (code, table["smoke"].endswith("ok")) == (0, True)
    assert ours == ["cluster-build", "test-smoke", "test-cluster"]


def test_the_exit_code_of_a_cluster_that_is_not_built_is_the_one_that_leaves_a_stage():
    assert LEAVE == NOT_BUILT


def test_all_tiers_run_and_the_run_is_green(machine):
    code, table = machine.run()

    assert code == 0
    aside = ["heavy", "storms", "loops", "lowest-unit", *_PYTHONS]
    tiers = ["slow", "postgresql", "airflow-lowest", "browser", "browser-lowest", "smoke", "cluster", *aside]
    assert set(table) == {*_GATE, *tiers, "cluster-build", "all"}
    assert all(table[tier].split()[2:] == ["1", "1", "0", "1", "ok"] for tier in ["light", *tiers])


def test_each_stage_can_be_run_by_itself(machine):
    names = machine.call("--list").stdout.split()
    code, table = machine.run()
    assert (code, sorted(names)) == (0, sorted(list(table)[:-1]))

    for name in ("lint", "light", "browser", "cluster", "python3.13"):
        code, table = machine.run(name)
        assert (code, list(table)) == (0, [name, "all"])


def test_a_stage_that_there_is_not_is_refused_before_anything_runs(machine):
    done = machine.call("lint", "lihgt")

    assert done.returncode == 2
    assert 'no stage "lihgt"; there are: venv, lint, ' in done.stderr
    assert not (machine.folder / "made").exists()


def test_a_machine_without_python_is_named_before_anything_runs(machine):
    machine.remove("python3.11")

    done = machine.call(script="run")

    assert done.returncode == 1
    assert 'CI needs Python 3.11, and "python3.11" is not on this machine. Name another: PYTHON=' in done.stderr


def test_a_disk_that_is_full_is_named_before_anything_runs(machine):
    machine.run("lint")
    machine.change("machine", "NEEDED_GB = 0", "NEEDED_GB = 1_000_000")

    done = machine.call(script="run")

    assert done.returncode == 1
    assert "GB left, and a run needs 1000000. `make clean` and" in done.stderr
    assert len(machine.made) == 1
    assert not (machine.checkout / ".ci" / "reports").exists()


def test_where_the_environment_cannot_be_made_nothing_else_runs(machine):
    code, table = machine.run(script="run", FAKE_MAKE='[ "$1" != venv ] || exit 2')

    assert (code, len(machine.made)) == (1, 1)
    assert all("FAILED: there is no environment, as the stage venv has failed" in table[name] for name in _GATE[1:])


def test_nothing_from_outside_chooses_tests_and_ci_is_set(machine):
    machine.run(ARGS="-k nothing", CI="")

    assert "light" not in machine.made[0]
    assert all(" CI=1 ARGS= " in line for line in machine.made)


def test_the_two_stages_on_the_lowest_airflow_run_the_lowest_python_and_all_that_the_other_pythons_do(machine):
    machine.run()

    made = [line.partition(" ARGS=")[2].partition(" ")[2] for line in machine.made]
    of_lowest = {line.removeprefix("test-airflow-lowest ") for line in made if "test-airflow-lowest" in line}
    (of_3_12,) = [line for line in made if line.startswith("test-python") and line.count("python3.12")]
    python = f"PYTHON={machine.programs / 'python3.10'}"
    tests = of_3_12.partition("ARGS=")[2].partition(" PYTHON=")[0]
    assert of_lowest == {f"ARGS=tests/airflow -m 'not heavy' {python}", f"ARGS={tests} {python}"}
    assert tests.startswith("tests/unit tests/contract --ignore=tests/unit/ci ")


def test_the_stages_say_what_they_have_to_run_on(machine):
    machine.run(TRAINER_TEST_RUNS_ON="python=2.7")

    assert {line for line in (machine.folder / "runs_on").read_text().splitlines() if "=" in line} == {
        "test-postgresql database=postgresql",
        "test-airflow-lowest python=3.10 airflow=3.1.0",
        "test-browser-lowest python=3.10 airflow=3.1.0",
        "test-python python=3.12",
        "test-python python=3.13",
    }


@pytest.mark.parametrize("name", ["python3.10", *_PYTHONS, "chromium", "pg_ctlcluster", "apt-get"])
def test_a_tier_that_the_machine_cannot_run_makes_the_run_red_unless_it_is_named(machine, name):
    machine.remove(name)
    if name in ("chromium", "pg_ctlcluster"):
        machine.add("apt-get", "#!/bin/sh\nexit 100\n")
    stages = _STAGES.get(name, [name])

    code, table = machine.run()
    assert (code, all("FAILED" in table[stage] for stage in stages)) == (1, True)

    code, table = machine.run(CI_WITHOUT=" ".join(["docs", *stages]))
    assert (code, all("skipped: " in table[stage] for stage in stages)) == (0, True)
    assert table["docs"].endswith("skipped: CI_WITHOUT names it")


def test_a_run_that_leaves_every_test_out_is_red(machine):
    _, table = machine.run()

    assert machine.run(CI_WITHOUT=" ".join(table))[0] == 1
    assert machine.run(script="run", CI_WITHOUT="light")[0] == 1


def test_the_gate_can_be_without_what_it_may_leave_to_the_whole_run_and_nothing_else(machine):
    spare = ["docs", "newcomer", "smoke"]
    code, table = machine.run(script="run", CI_WITHOUT=" ".join(spare))
    assert (code, [name for name in _GATE if "skipped" in table[name]]) == (0, spare)

    code, table = machine.run(script="run", CI_WITHOUT="lint")
    assert (code, "FAILED: CI_WITHOUT names it" in table["lint"]) == (1, True)


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


def test_a_file_with_tests_that_is_not_collected_makes_the_run_red(machine):
    machine.add_test("tests/unit/build/test_two.py")

    code, table = machine.run(script="run")

    assert (code, table["light"].endswith("FAILED; not collected: tests/unit/build/test_two.py")) == (1, True)


def test_each_folder_of_tests_belongs_to_a_stage():
    folders = {file.relative_to(_ROOT).parts[1] for file in (_ROOT / "tests").rglob("test_*.py")}
    stages = [*before_cluster(), *cluster()]

    assert folders == {Path(folder).parts[1] for stage in stages for folder in stage.tests}


def test_each_pytest_of_the_cluster_tier_is_counted(machine):
    make = f"""if [ "$1" = test-cluster ]; then
        for number in 1 2 3; do echo '{_REPORT}' >"$TRAINER_TEST_REPORTS/$number.xml"; done; exit; fi"""

    code, table = machine.run(FAKE_MAKE=make)

    assert (code, table["cluster"].split()[2:4]) == (0, ["3", "3"])


def test_a_check_without_tests_that_fails_makes_the_run_red(machine):
    assert machine.run(FAKE_MAKE='[ "$1" != lint ] || exit 2')[0] == 1


def test_what_a_stage_leaves_behind_is_ended_and_named(machine):
    code, _ = machine.run(script="run", FAKE_MAKE=f'[ "$1" != lint ] || {{ {_LEAVES_SLEEP} }}')

    rows = {row["stage"]: row["left"] for row in machine.report()["rows"]}
    assert (code, [left.split()[1:] for left in rows["lint"]]) == (0, [["sleep", "301"]])
    assert not any(left for stage, left in rows.items() if stage != "lint")


def test_a_run_that_is_ended_from_outside_ends_what_it_started(machine):
    run = start_and_reach(machine, "lint")

    run.terminate()

    output, _ = run.communicate(timeout=60)
    assert (run.returncode, output.count("FAILED: not run to its end")) == (143, len(_GATE) - 1)
    machine.assert_nothing_is_left()


def test_a_run_begins_by_ending_what_a_killed_run_and_other_checkouts_have_left(machine):
    run = start_and_reach(machine, "light")
    run.kill()
    run.wait(60)
    airflow = subprocess.Popen(["sleep", "300"], env={"FAKE": str(machine.folder), machine.instance: "x"})
    assert (len(machine.processes()) > 2, len(machine.temporary())) == (True, 1)

    code, _ = machine.run(script="run")

    assert (code, airflow.wait(10)) == (0, -signal.SIGTERM)


def test_a_cluster_that_was_left_is_ended_once_there_is_an_environment(machine):
    (machine.folder / "cluster").mkdir()

    code, table = machine.run(script="run")

    assert (code, list(table)[:3]) == (0, ["venv", "cluster-down", "lint"])
    assert (machine.folder / "asked").read_text().splitlines()[0] == "-m tests.cluster down"


def test_a_cluster_that_a_run_uses_is_left_alone(machine):
    (machine.folder / "cluster").mkdir()
    with (machine.folder / "test.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)

        code, table = machine.run(script="run")

    assert (code, "cluster-down" in table) == (0, False)


def test_two_runs_at_once_in_a_checkout_are_refused(machine):
    run = start_and_reach(machine, "light")

    second = machine.start("lint", script="all")

    assert "CI runs in this checkout already: wait for it, or end it." in second.communicate(timeout=60)[1]
    assert (second.returncode, run.poll()) == (1, None)
    run.terminate()
    run.communicate(timeout=60)
    machine.assert_nothing_is_left()


def test_what_others_name_has_the_same_name_here():
    assert (INSTANCE, CLUSTER_STATE) == (settings.MARKER, paths.STATE)


def test_a_run_inside_of_a_stage_ends_nothing_that_goes_on(machine):
    outer = start_and_reach(machine, "light")
    (process,) = [each for each in machine.processes() if each.command == "sleep 301"]

    other = shutil.copytree(machine.checkout, machine.folder / "other")
    inner = machine.start("lint", script="all", checkout=other, **{machine.mark: process.environment[machine.mark]})
    output, _ = inner.communicate(timeout=60)

    assert (inner.returncode, "sleep 301" in output) == (0, True)
    assert [each for each in machine.processes() if each.command == "sleep 301"] == [process]
    outer.terminate()
    outer.communicate(timeout=60)
    machine.assert_nothing_is_left()


def start_and_reach(machine: Machine, stage: str) -> subprocess.Popen[str]:
    """A gate in the middle of a stage, with a process that is far from its own."""
    target = {"light": "test"}.get(stage, stage)
    make = f'[ "$1" != {target} ] || {{ {_LEAVES_SLEEP} touch "$FAKE/reached"; sleep 300; }}'
    run = machine.start(FAKE_MAKE=make)
    deadline = time.monotonic() + 60
    while not (machine.folder / "reached").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return run
