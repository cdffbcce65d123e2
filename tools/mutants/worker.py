"""A copy of the checkout, in which tests run while the code there is broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from tools.airflow_runner.processes import end_all
from tools.airflow_runner.settings import MARKER
from tools.mutants.mutation import Mutation

#: Exit statuses of pytest: all tests passed, and a test failed. Others mean that tests could not be run.
PASSED, FAILED = 0, 1
#: Part of the message of pytest-timeout about a test that takes too long.
_TOO_LONG = "from pytest-timeout"
#: How many limits of one test a run may take in addition to its tests: it can also hang outside of a test.
_AROUND_TESTS = 5


@dataclass(frozen=True)
class Outcome:
    """
    How tests ended.

    :param status: pytest's exit status.
    :param seconds: how long they took.
    :param output: what pytest printed.
    :param hung: whether the tests were ended because one of them did not end.
    """

    status: int
    seconds: float
    output: str
    hung: bool = False

    @property
    def failed_test(self) -> str | None:
        """The first test that failed."""
        match = re.search(r"^(?:FAILED|ERROR) (\S+)", self.output, re.MULTILINE)
        return match[1] if match else None


class Worker:
    """
    A copy of a checkout, for one test run at a time.

    :param checkout: to copy: the files that git tracks, and the untracked files that it does not ignore.
    :param folder: in which the copy is created; it must not exist yet.
    """

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._copy = folder / "checkout"
        self._tmp = folder / "tmp"
        self._tmp.mkdir(parents=True)
        for name in _files(checkout):
            target = self._copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, target)

    def try_mutation(self, mutation: Mutation, limit: float) -> Outcome:
        """
        Run the mutation's tests on broken code, up to the first that fails.

        :param mutation: the fault.
        :param limit: seconds that one test may take.
        """
        path = self._copy / mutation.file
        code = path.read_text()
        _write(path, mutation.apply(code))
        try:
            return self.run(mutation.tests, limit)
        finally:
            _write(path, code)

    def run(self, tests: Collection[str], limit: float) -> Outcome:
        """
        Run tests, up to the first that fails.

        :param tests: the arguments of pytest.
        :param limit: seconds that one test may take.
        """
        environment = os.environ | {MARKER: str(self._copy), "PYTHONPATH": str(self._copy), "TMPDIR": str(self._tmp)}
        environment.pop("PYTEST_ADDOPTS", None)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--timeout={limit}", *tests]
        begin = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self._copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            process.communicate(timeout=limit * (len(tests) + _AROUND_TESTS))
            in_time = True
        except subprocess.TimeoutExpired:
            in_time = False
        # Broken code may also leave processes of jobs behind.
        end_all(str(self._copy), grace=0)
        output, _ = process.communicate()
        shutil.rmtree(self._tmp)
        self._tmp.mkdir()
        hung = not in_time or _TOO_LONG in output
        return Outcome(process.returncode, time.monotonic() - begin, output, hung)


def _files(checkout: Path) -> list[str]:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listing, cwd=checkout, check=True, capture_output=True, text=True).stdout.split("\0")
    # git also names files that were deleted and not committed.
    return [name for name in names if name and (checkout / name).is_file()]


def _write(path: Path, code: str) -> None:
    path.write_text(code)
    # Python recognizes stale bytecode by the time of the source, in seconds, and its size. A fault may change neither.
    Path(cache_from_source(path)).unlink(missing_ok=True)
