"""How the runs of pytest add up, the closing table, and the refusal on a machine that lacks something."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from tests.cluster import preflight, runner

# Stands in for `python -m pytest`: does what FAKE_PYTEST says for the run, by its number.
_PYTEST = """\
#!{python}
import json, os, pathlib, sys
runs = pathlib.Path(os.environ["FAKE_RUNS"])
with runs.open("a") as file:
    file.write(json.dumps([os.environ["TRAINER_TEST_PROFILE"], *sys.argv[1:]]) + "\\n")
number = len(runs.read_text().splitlines())
code = json.loads(os.environ["FAKE_PYTEST"]).get(str(number), 0)
if code < 0:
    os.kill(os.getpid(), -code)
for argument in sys.argv:
    if argument.startswith("--junitxml="):
        pathlib.Path(argument.partition("=")[2]).write_text(f"report {{number}}")
sys.exit(code)
"""


class _Cluster:
    """One that starts and ends at once."""

    kubectl = SimpleNamespace(list=lambda kind: [])

    def build(self):
        pass

    def up(self, profile):
        pass


@pytest.fixture
def run_with(monkeypatch, tmp_path):
    """Function (exit codes by number of the run, arguments) -> exit code of ``make test-cluster``."""
    python = tmp_path / "python"
    python.write_text(_PYTEST.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(runner, "Cluster", _Cluster)
    monkeypatch.setattr(runner, "down", lambda: None)
    monkeypatch.setattr(runner, "STATE", tmp_path / "state" / "cluster")
    monkeypatch.setattr(preflight, "missing", list)
    monkeypatch.delenv("TRAINER_TEST_KUBECONFIG", raising=False)
    monkeypatch.setenv("FAKE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("TRAINER_TEST_REPORTS", str(tmp_path / "reports"))
    (tmp_path / "reports").mkdir()

    def run(codes, *arguments, **options):
        monkeypatch.setenv("FAKE_PYTEST", json.dumps(codes))
        return runner.run_tests(arguments, **options)

    return run


def test_a_green_run_has_run_pytest_five_times(run_with, tmp_path):
    assert run_with({}) == 0

    runs = [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]
    assert [run[0] for run in runs] == ["none", "kubeflow", "kubeflow", "mpi", "mpi"]


@pytest.mark.parametrize(("codes", "code"), [({}, 0), ({1: 1}, 1), ({1: 5}, 5), ({1: -9}, 137)])
def test_the_smoke_tests_are_one_run_on_their_own_profile(run_with, tmp_path, codes, code):
    assert run_with(codes, smoke=True) == code

    (run,) = [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]
    assert (run[0], "--numprocesses=3" in run) == ("smoke", True)
    assert [file.name for file in (tmp_path / "reports").iterdir()] == ["1-smoke.xml"]


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ({3: 1}, 1),
        ({3: 4, 5: 1}, 4),
        # Killed, which is less than 0; alone, and before and after a failure.
        ({5: -9}, 137),
        ({2: -9, 3: 1}, 137),
        ({2: 1, 3: -9}, 1),
        # Without a test: one run, those of one profile, and all.
        ({1: 5}, 5),
        ({4: 5, 5: 5}, 5),
        (dict.fromkeys(range(1, 6), 5), 5),
    ],
)
def test_the_first_run_that_failed_or_had_no_test_decides(run_with, codes, code):
    assert run_with(codes) == code


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        (dict.fromkeys(range(1, 5), 5), 0),
        (dict.fromkeys(range(1, 5), 5) | {5: -11}, 139),
        (dict.fromkeys(range(1, 6), 5), 5),
    ],
)
def test_arguments_may_leave_a_run_without_tests_but_not_all(run_with, codes, code):
    assert run_with(codes, "-k", "xgboost") == code


def test_each_run_has_a_report_of_its_own_and_one_that_was_killed_an_empty_one(run_with, tmp_path):
    run_with({4: -9})

    reports = {file.name: file.read_text() for file in (tmp_path / "reports").iterdir()}
    names = ["1-none", "2-kubeflow", "3-kubeflow", "4-mpi", "5-mpi"]
    assert reports == {f"{name}.xml": "" if name[0] == "4" else f"report {name[0]}" for name in names}


def test_table_has_a_row_for_each_kind():
    lines = "\n".join(
        json.dumps({"kind": kind, "seconds": seconds}) for kind, seconds in (("PyTorchJob", 6.17), ("Job", 12))
    )
    assert runner.table(lines).splitlines() == [
        "Kind        Seconds from create to success",
        "------------------------------------------",
        "PyTorchJob      6.2",
        "Job            12.0",
    ]


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_missing_parts_skip_loudly_and_fail_only_in_ci(ci, code, monkeypatch, capsys):
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv("TRAINER_TEST_KUBECONFIG", raising=False)
    monkeypatch.setattr(preflight, "missing", lambda: ["root: to make namespaces"])
    assert runner.run_tests([]) == code
    printed = capsys.readouterr().out
    assert "THE CLUSTER TESTS DID NOT RUN" in printed
    assert "root: to make namespaces" in printed
    assert "TRAINER_TEST_KUBECONFIG" in printed


def test_preflight_names_what_is_missing(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert any(problem.startswith("root") for problem in preflight.missing())


def test_preflight_without_go(monkeypatch):
    def absent():
        raise FileNotFoundError

    monkeypatch.setattr(preflight, "go_program", absent)
    assert any(problem.startswith("Go 1.") for problem in preflight.missing())


def test_old_go_is_too_old(monkeypatch):
    monkeypatch.setattr(preflight, "run", lambda *argv: "go1.9.7\n")
    monkeypatch.setattr(preflight, "go_program", lambda: "go")
    assert any("go1.9.7" in problem for problem in preflight.missing())
