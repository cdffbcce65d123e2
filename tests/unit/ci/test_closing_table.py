"""The closing table of .ci/run, made of reports that pytest itself has written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cluster.paths import ROOT
from tools.closing_table import closing_table, read_reports

_GREEN = "def test_one(): pass\n"
_SKIPS = """\
import pytest

def test_one(): pass

@pytest.mark.parametrize("number", [1, 2])
def test_by_hand(number): pytest.skip("no Kueue here\\nsecond line")

@pytest.mark.skipif(True, reason="of one backend only")
def test_by_mark(): pass

@pytest.mark.xfail(reason="not yet")
def test_expected(): assert False
"""
_MODULE_SKIP = 'import pytest\npytest.skip("no such system", allow_module_level=True)\n'
_RED = """\
import pytest

@pytest.fixture
def broken(): raise OSError

def test_one(broken): pass

def test_two(): assert False
"""
_KILLED = "import os\n\ndef test_one(): os.kill(os.getpid(), 9)\n"
_LEFT = "import os\n\ndef test_one(): os._exit(0)\n"


@pytest.fixture
def stage(tmp_path):
    """Function (name, outcome, source of the tests in each run) that leaves what a stage with tests leaves."""
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}

    def run(name, outcome, *sources):
        folder = tmp_path / name
        folder.mkdir()
        for number, source in enumerate(sources, 1):
            file = tmp_path / f"test_{name}_{number}.py"
            file.write_text(source)
            argv = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:asyncio",
                f"--rootdir={tmp_path}",
                "-c",
                os.devnull,
            ]
            subprocess.run([*argv, str(file), f"--junitxml={folder}/{number}.xml"], env=env, check=False, timeout=120)
        with (tmp_path / "stages").open("a") as stages:
            stages.write(f"{name}\t7\t{outcome}\ttests\n")

    return run


def test_every_run_of_every_stage_is_counted_with_each_reason_to_skip(stage, tmp_path):
    (tmp_path / "stages").write_text("lint\t12\tok\t-\nbrowser\t-\tskipped: no chromium\t-\n")
    stage("light", "ok", _GREEN)
    stage("cluster", "ok", _SKIPS, _GREEN, _GREEN + _MODULE_SKIP, _SKIPS)

    lines, good = closing_table(tmp_path)

    assert lines == [
        "stage    seconds  runs  passed  failed  skipped  outcome",
        "lint          12     -       -       -        -  ok",
        "browser        -     -       -       -        -  skipped: no chromium",
        "light          7     1       1       0        0  ok",
        "cluster        7     4       3       0        9  ok",
        "    4 skipped: no Kueue here",
        "    2 skipped: of one backend only",
        "    2 skipped: expected failure: not yet",
        "    1 skipped: no such system",
        "all                  5       4       0        9",
    ]
    assert good


def test_tests_that_fail_and_those_that_cannot_begin_are_counted(stage, tmp_path):
    stage("light", "FAILED (2)", _RED, _GREEN)

    lines, good = closing_table(tmp_path)

    assert lines[1] == "light        7     2       1       2        0  FAILED (2)"
    assert lines[2:4] == [
        '    failed: test_light_1::test_one: failed on setup with "OSError"',
        "    failed: test_light_1::test_two: assert False",
    ]
    # The stage's own exit code has made the run red.
    assert good


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ([_KILLED], "no report: pytest did not come to its end"),
        ([_LEFT], "no report: pytest did not come to its end"),
        ([], "no report: pytest did not come to its end"),
        ([_GREEN, ""], "2.xml has no test"),
        ([_MODULE_SKIP], "no test was run"),
        ([_RED], "tests failed, and the stage did not"),
    ],
    ids=["killed", "exits", "never started", "empty run", "all skipped", "failed unseen"],
)
def test_a_stage_that_ended_well_without_its_tests_has_failed(stage, tmp_path, sources, problem):
    stage("light", "ok", *sources)

    lines, good = closing_table(tmp_path)

    assert not good
    assert lines[1].endswith(f"FAILED; {problem}")


def test_a_test_that_was_run_again_is_named_with_what_it_raised(stage, tmp_path):
    stage("light", "ok", _GREEN)
    (tmp_path / "light" / "reruns").write_text("tests/test_a.py::test_b: it took too long\n")

    lines, good = closing_table(tmp_path)

    assert lines[2] == "    run again: tests/test_a.py::test_b: it took too long"
    assert good


def test_ci_runs_a_test_that_fails_once_more_and_writes_it_down(tmp_path):
    count = tmp_path / "count"
    source = f"""
import pathlib
count = pathlib.Path({str(count)!r})

def test_starved():
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    assert count.read_text() == "xx"

def test_broken():
    assert False
"""
    file = tmp_path / "test_ci.py"
    file.write_text(source)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_configure\n")
    env = {"PATH": os.environ["PATH"], "CI": "1", "TRAINER_TEST_REPORTS": str(tmp_path), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c", os.devnull]
    done = subprocess.run([*argv, str(file)], env=env, check=False, timeout=120, capture_output=True, text=True)

    assert "1 failed, 1 passed, 2 rerun" in done.stdout
    starved, broken = (tmp_path / "reruns").read_text().splitlines()
    assert starved.startswith("test_ci.py::test_starved: AssertionError")
    assert broken.startswith("test_ci.py::test_broken: assert False")


@pytest.mark.parametrize("content", ["", "<testsuites><testsuite><testcase"])
def test_one_report_that_is_not_whole_is_a_problem_whatever_the_others_say(stage, tmp_path, content):
    stage("cluster", "ok", _GREEN, _GREEN)
    (tmp_path / "cluster" / "3-mpi.xml").write_text(content)

    assert read_reports(tmp_path / "cluster").problems == ["3-mpi.xml is not whole: pytest was killed"]


def test_the_exit_code_says_whether_tests_are_missing(stage, tmp_path):
    argv = [sys.executable, "-m", "tools.closing_table", str(tmp_path)]
    stage("light", "ok", _GREEN)
    assert subprocess.run(argv, cwd=ROOT, check=False).returncode == 0

    stage("heavy", "ok")
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)

    assert done.returncode == 1
    assert "heavy" in done.stdout
