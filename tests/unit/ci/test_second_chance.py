"""The second chance that a test of CI has, in runs of pytest on tests that were written for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.ci.reports import read_reports
from tools.ci.table import Result, make_table

_ROOT = Path(__file__).parents[3]
#: What a test calls that passes only the second time, for example: a file beside it has the count.
_HEAD = """\
import os, pathlib, pytest

def passes_at(name, *times):
    count = pathlib.Path(__file__).with_name(name)
    count.write_text((count.read_text() if count.exists() else "") + "x")
    assert len(count.read_text()) in times, f"{name} was starved"

"""
_STARVED = """
@pytest.mark.parametrize("name", ["a/b::c [d]", "\\x1b"])
def test_starved(name): passes_at(f"starved-{name.encode().hex()}", 2, 3)
"""
_BROKEN = "\ndef test_broken(): assert False\n"
_TWICE = "\ndef test_twice(): passes_at('twice', 2)\n"
_DEFECT = "\n@pytest.mark.no_second_chance\ndef test_adopts(): passes_at('adopts', 2, 3)\n"
_MANY = "\n@pytest.mark.parametrize('number', range(6))\ndef test_many(number): passes_at(f'many-{number}', 2, 3)\n"
_KILLED = "\ndef test_kills(): os.kill(os.getpid(), 9)\n"
_TEARDOWN = """
@pytest.fixture
def cleaned():
    yield
    passes_at("cleaned", 2, 3)

def test_leaves(cleaned): pass
"""
_GREEN = "\ndef test_one(): pass\n"


@pytest.fixture
def run(tmp_path):
    """Function (source, more arguments) that runs pytest as a stage of CI does: the exit code, output and reports."""
    (tmp_path / "conftest.py").write_text(
        "from tests import second_chance\ndef pytest_configure(config):\n    second_chance.register(config)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = no_second_chance\naddopts = --strict-markers\n")
    reports = tmp_path / "reports"
    reports.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "CI": "1",
        "TRAINER_TEST_REPORTS": str(reports),
        "PYTHONPATH": str(_ROOT),
        "PYTEST_ADDOPTS": f"--junitxml={reports}/pytest.xml",
        # Plugins take half a second each time.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "xdist.plugin",
    }

    def run(source, *arguments, **more):
        (tmp_path / "test_ci.py").write_text(_HEAD + source)
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(
            argv, cwd=tmp_path, env=env | more, check=False, timeout=120, capture_output=True, text=True
        )
        print(done.stdout, done.stderr)
        return done.returncode, done.stdout, read_reports(reports)

    return run


@pytest.mark.parametrize("processes", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_test_that_fails_and_then_passes_twice_by_itself_counts_as_passed_and_is_named(run, tmp_path, processes):
    code, output, reports = run(_GREEN + _STARVED, f"--numprocesses={processes}")

    assert (code, reports.passed, reports.failures, reports.problems) == (0, 3, [], [])
    assert {line.partition(": ")[0] for line in reports.unsteady} == {
        "test_ci.py::test_starved[a/b::c [d]]",
        "test_ci.py::test_starved[\\x1b]",
    }
    assert "UNSTEADY, it passed 2 times by itself; at first: AssertionError: starved-" in output
    lines = make_table([Result("light", "ok", 1, reports=tmp_path / "reports")]).lines()
    assert [line.split(":")[0] for line in lines[2:4]] == ["    UNSTEADY"] * 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (_BROKEN + _STARVED, "test_ci.py::test_broken: failed again; at first: assert False"),
        (_TWICE, "test_ci.py::test_twice: failed again; at first: AssertionError: twice was starved"),
        (_DEFECT + _STARVED, "none: test_ci.py::test_adopts is marked no_second_chance"),
        (_TEARDOWN, "none: fixtures that others may have used could not be torn down"),
        (_MANY, "none: 6 tests failed, and at most 5 have one"),
    ],
    ids=["broken", "passes once", "no second chance", "teardown", "many"],
)
def test_what_fails_again_or_has_no_second_chance_makes_the_run_red(run, source, said):
    code, output, reports = run(_GREEN + source)

    assert (code, said in output) == (1, True)
    assert reports.failures


def test_a_test_that_ends_its_process_has_none(run):
    code, output, reports = run(_GREEN + _KILLED, "--numprocesses=2")

    assert (code, "none: a test has ended its process" in output) == (1, True)
    assert len(reports.failures) == 1


def test_a_worker_that_is_killed_ends_the_run_and_is_not_replaced(run):
    (options,) = re.findall(r"^BY_SCOPE := (.*)$", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    several = "".join(f"\nclass Test{letter}:\n    def test_one(self): pass\n" for letter in "abcdefgh")

    code, output, reports = run(_KILLED + several, "--numprocesses=2", *options.split())

    assert (code, "replacing" in output) == (1, False)
    assert len(reports.failures) == 1
    assert "crashed while running 'test_ci.py::test_kills'" in output


def test_there_is_none_where_a_file_cannot_be_collected(run, tmp_path):
    (tmp_path / "test_wrong.py").write_text("import nothing_of_this_name\n")

    assert run(_GREEN + _STARVED)[0] == 2
    assert run(_GREEN + _STARVED, "--continue-on-collection-errors")[0] == 1


def test_there_is_none_where_the_run_was_cut_short(run):
    code, output, _ = run(_STARVED + _GREEN, "-x")

    assert (code, "none: not all tests were collected and run" in output) == (1, True)


def test_there_is_none_outside_of_ci(run):
    assert run(_STARVED, CI="")[0] == 1


def test_each_collected_file_is_written_down_whatever_is_chosen(run, tmp_path):
    (tmp_path / "test_other.py").write_text("def test_two(): pass\n")

    assert run(_GREEN, "-k", "test_one", "--numprocesses=2")[0] == 0
    assert (tmp_path / "reports" / "collected").read_text().split() == ["test_ci.py", "test_other.py"]
