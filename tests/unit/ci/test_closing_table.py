"""The closing table of a run, made of reports that pytest itself has written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.ci.reports import read_reports
from tools.ci.table import Result, make_table

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
    """Function (name, outcome, source of the tests in each run) that gives the result of a stage with tests."""
    # Plugins take half a second each time.
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

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
                f"--rootdir={tmp_path}",
                "-c",
                os.devnull,
            ]
            subprocess.run([*argv, str(file), f"--junitxml={folder}/{number}.xml"], env=env, check=False, timeout=120)
        return Result(name, outcome, 7, reports=folder)

    return run


def test_every_run_of_every_stage_is_counted_with_each_reason_to_skip(stage, tmp_path):
    table = make_table(
        [
            Result("lint", "ok", 12, ["17 sleep 300"]),
            Result("browser", "skipped: no chromium", reports=tmp_path / "browser"),
            stage("light", "ok", _GREEN),
            stage("cluster", "ok", _SKIPS, _GREEN, _GREEN + _MODULE_SKIP, _SKIPS),
        ]
    )

    assert table.lines() == [
        "stage    seconds  runs  passed  failed  skipped  outcome",
        "lint          12     -       -       -        -  ok",
        "    left behind, and ended: 17 sleep 300",
        "browser        -     -       -       -        -  skipped: no chromium",
        "light          7     1       1       0        0  ok",
        "cluster        7     4       3       0        9  ok",
        "    4 skipped: no Kueue here",
        "    2 skipped: of one backend only",
        "    2 skipped: expected failure: not yet",
        "    1 skipped: no such system",
        "all           26     5       4       0        9  passed",
    ]


def test_tests_that_fail_and_those_that_cannot_begin_are_counted(stage):
    table = make_table([stage("light", "FAILED (2)", _RED, _GREEN)])

    lines = table.lines()
    assert lines[1] == "light        7     2       1       2        0  FAILED (2)"
    assert lines[2:4] == [
        '    failed: test_light_1::test_one: failed on setup with "OSError"',
        "    failed: test_light_1::test_two: assert False",
    ]
    assert not table.good


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
def test_a_stage_that_ended_well_without_its_tests_has_failed(stage, sources, problem):
    table = make_table([stage("light", "ok", *sources)])

    assert not table.good
    assert table.lines()[1].endswith(f"FAILED; {problem}")


@pytest.mark.parametrize("content", ["", "<testsuites><testsuite><testcase"])
def test_one_report_that_is_not_whole_is_a_problem_whatever_the_others_say(stage, tmp_path, content):
    stage("cluster", "ok", _GREEN, _GREEN)
    (tmp_path / "cluster" / "3-mpi.xml").write_text(content)

    assert read_reports(tmp_path / "cluster").problems == ["3-mpi.xml is not whole: pytest was killed"]


def test_a_file_that_was_not_collected_is_a_problem(stage, tmp_path):
    stage("light", "ok", _GREEN)
    (tmp_path / "light" / "collected").write_text("tests/test_a.py\n")

    assert read_reports(tmp_path / "light", ["tests/test_a.py"]).problems == []
    assert read_reports(tmp_path / "light", ["tests/test_b.py", "tests/test_a.py"]).problems == [
        "not collected: tests/test_b.py"
    ]
