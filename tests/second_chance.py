"""What CI asks of pytest: which files were collected, and a second chance for a test that fails.

A test that fails runs again, twice, after all others, in a process by itself. Where it passes both times it counts as
passed, and CI names it UNSTEADY: two cores run real clusters and Airflows, and starve one now and then. There is no
second chance for tests marked ``no_second_chance``, where a flake is the defect; for a test that ended its process;
for an error while fixtures are torn down, which other tests may have caused; for more than :data:`MOST` tests; and none
after an error while tests were collected.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.ci.reports import COLLECTED, NODE_ID, UNSTEADY, passed_tests

#: Names the folder in which CI collects reports.
REPORTS_VARIABLE = "TRAINER_TEST_REPORTS"
MARKER = "no_second_chance"
MOST = 5
_TIMES = 2
#: Seconds for each time.
_LIMIT = 600
#: Seconds in which pytest tears its fixtures down.
_INTERRUPTED_WITHIN = 60
#: Set for the process that runs tests again.
_AGAIN = "TRAINER_TEST_AGAIN"


class Collected:
    """Writes down which files with tests were collected, and gives each test its node id in the report.

    :param file: one line for each file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Before a marker or a keyword leaves tests out."""
        for item in items:
            item.user_properties.append((NODE_ID, item.nodeid))
        # Processes that share the tests have collected the same.
        if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
            files = sorted({item.nodeid.partition("::")[0] for item in items})
            with self._file.open("a") as file:
                file.writelines(f"{name}\n" for name in files)


class SecondChance:
    """Runs the tests that failed again, in the process that all others report to.

    :param config: of the run that goes on.
    :param folder: for reports.
    """

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config = config
        self._folder = folder
        self._failed: dict[str, pytest.TestReport] = {}
        self._phases: set[str] = set()
        self._collected = True
        self._passed: list[str] = []
        self._refused = ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note that a file could not be collected."""
        self._collected &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure in any phase of a test."""
        if report.failed:
            self._failed.setdefault(report.nodeid, report)
            self._phases.add(report.when or "")

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Run them again where all tests have run, before pytest prints its summary."""
        yield
        if not self._failed:
            return
        self._refused = self._why_not(session)
        if not self._refused:
            self._passed = self._run_again()
        if len(self._passed) == len(self._failed):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report the result."""
        if not self._failed:
            return
        terminalreporter.section("second chance")
        if self._refused:
            terminalreporter.line(f"none: {self._refused}")
            return
        for test, report in self._failed.items():
            passed = f"UNSTEADY, it passed {_TIMES} times by itself" if test in self._passed else "failed again"
            terminalreporter.line(f"{test}: {passed}; at first: {_raised(report)}")

    def _why_not(self, session: pytest.Session) -> str:
        finished = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        if not finished or session.shouldfail or session.shouldstop or not self._collected:
            return "not all tests were collected and run"
        if "teardown" in self._phases:
            return "fixtures that others may have used could not be torn down"
        # What pytest-xdist reports of a process that is gone.
        if self._phases - {"setup", "call"}:
            return "a test has ended its process"
        if len(self._failed) > MOST:
            return f"{len(self._failed)} tests failed, and at most {MOST} have one"
        marked = [test for test, report in self._failed.items() if MARKER in report.keywords]
        return f"{marked[0]} is marked {MARKER}" if marked else ""

    def _run_again(self) -> list[str]:
        """Those that passed each time."""
        passed = set(self._failed)
        for number in range(1, _TIMES + 1):
            folder = self._folder / f"again-{len(list(self._folder.glob('again-*'))) + 1}"
            print(f"\n\nsecond chance, run {number} of {_TIMES}:", flush=True)
            folder.mkdir()
            code = self._run(sorted(passed), folder)
            passed &= passed_tests(folder) if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else set()
            if not passed:
                break
        report = Path(self._config.option.xmlpath).name
        with (self._folder / UNSTEADY).open("a") as file:
            file.writelines(f"{json.dumps([report, test])}\n" for test in sorted(passed))
        return sorted(passed)

    def _run(self, tests: list[str], folder: Path) -> int:
        """The exit code of pytest on some tests, one after the other."""
        root, ini = self._config.rootpath, self._config.inipath or os.devnull
        argv = [sys.executable, "-m", "pytest", "-n0", f"--rootdir={root}", "-c", str(ini), *tests]
        env = {
            **os.environ,
            "PYTEST_ADDOPTS": shlex.quote(f"--junitxml={folder}/pytest.xml"),
            REPORTS_VARIABLE: str(folder),
            _AGAIN: "1",
        }
        with subprocess.Popen(argv, cwd=root, env=env) as process:
            try:
                return process.wait(_LIMIT)
            except subprocess.TimeoutExpired:
                print(f"not over after {_LIMIT} s")
                process.send_signal(signal.SIGINT)
            try:
                return process.wait(_INTERRUPTED_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait()


def register(config: pytest.Config) -> None:
    """Add what CI asks for to a run of pytest, where CI asks.

    :param config: of the run.
    """
    folder = os.environ.get(REPORTS_VARIABLE)
    if not (folder and os.environ.get("CI")):
        return
    config.pluginmanager.register(Collected(Path(folder) / COLLECTED))
    # A process that shares the tests reports to the one that started it.
    if not hasattr(config, "workerinput") and _AGAIN not in os.environ:
        config.pluginmanager.register(SecondChance(config, Path(folder)))


def _raised(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).partition("\n")[0]
