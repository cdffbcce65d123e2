"""A run: stage after stage, each with a limit, and nothing that is left of it."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tools.ci import processes
from tools.ci.processes import MARK
from tools.ci.stages import LEAVE, Stage
from tools.ci.table import Result

#: Seconds in which a command has said whether its stage is left to the whole run.
_ASKED_WITHIN = 60
#: Seconds between SIGTERM and SIGKILL for what is left of a stage.
_GRACE = 30.0
#: What would choose or change tests, or hide a fault, from outside.
_NOT_INHERITED = ("ARGS", "GNUMAKEFLAGS", "MAKEFLAGS", "PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE")
_NOT_INHERITED_PREFIXES = ("FUZZ_", "PYTEST_", "TRAINER_TEST_", "UPDATE_")
#: Seconds in which a process that got SIGKILL has ended.
_KILLED_WITHIN = 10.0
_LEFT = "left to the whole run"


class Run:
    """Runs stages, and has their results.

    :param name: of the run, from :func:`tools.ci.processes.new_run`.
    :param folder: for temporary files.
    :param reports: for the reports of tests.
    :param seconds: that all stages have together; None: each has its own limit alone.
    """

    def __init__(self, name: str, folder: Path, reports: Path, seconds: float | None = None) -> None:
        self.name = name
        self.results: list[Result] = []
        self._reports = reports
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._without = os.environ.get("CI_WITHOUT", "").split()
        self._environment = {
            **{name: value for name, value in os.environ.items() if _is_inherited(name)},
            # Tests that would skip where something is missing fail in CI.
            "CI": "1",
            "TMPDIR": str(folder),
            # A process that sets its title would overwrite the environment, and the mark with it.
            "SPT_NOENV": "1",
        }
        self._no_environment = False
        self._over = False

    def run(self, stages: Sequence[Stage], output: IO[str] | None = None) -> None:
        """Run stages one after the other. One that fails does not keep the later ones from running.

        :param stages: to run.
        :param output: where they write to; None: where this process does.
        """
        for stage in stages:
            if self._over:
                return
            outcome, seconds = self._why_not(stage), None
            left: list[str] = []
            print(f"\n=== {stage.name}: {outcome or ' '.join(stage.command)}", file=output, flush=True)
            if not outcome:
                begun = time.monotonic()
                outcome, left = self._execute(stage, output)
                seconds = round(time.monotonic() - begun)
            self._no_environment |= stage.name == "venv" and outcome.startswith("FAILED")
            reports = self._reports / stage.name if stage.tests else None
            expected = () if stage.part else _test_files(stage.tests)
            self.results.append(Result(stage.name, outcome, seconds, left, reports, expected))

    def end(self) -> None:
        """Begin no further stage, and end all processes of the run."""
        self._over = True
        processes.end(lambda: processes.of_mark(self.name), _GRACE)

    def _why_not(self, stage: Stage) -> str:
        """Why the stage is not run, or nothing."""
        if stage.name in self._without:
            return self._skip(stage)
        if stage.lacks:
            return f"FAILED: {stage.lacks}"
        if self._no_environment:
            return "FAILED: there is no environment, as the stage venv has failed"
        return self._out_of_time(stage) or self._ask(stage.asks)

    def _skip(self, stage: Stage) -> str:
        if self._deadline is not None and not stage.spare:
            return "FAILED: CI_WITHOUT names it, and without it the gate decides nothing"
        return f"skipped: {stage.lacks or 'CI_WITHOUT names it'}"

    def _out_of_time(self, stage: Stage) -> str:
        left = self._seconds_left()
        if stage.spare and left < stage.spare:
            return f"{_LEFT}: {max(left, 0):.0f} s were left of {stage.spare} that it needs"
        return "" if left >= 1 else "FAILED: no time was left"

    def _ask(self, command: Sequence[str]) -> str:
        """Why the gate leaves a stage to the whole run, or nothing."""
        if not command:
            return ""
        try:
            asked = subprocess.run(
                command, env=self._environment, check=False, capture_output=True, text=True, timeout=_ASKED_WITHIN
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"FAILED: {error}"
        if asked.returncode == 0:
            return ""
        (*_, last) = ("", *(asked.stdout + asked.stderr).strip().splitlines())
        return f"{_LEFT}: {last}" if asked.returncode == LEAVE else f"FAILED: {shlex.join(command)}: {last}"

    def _execute(self, stage: Stage, output: IO[str] | None) -> tuple[str, list[str]]:
        """Run a stage's command: the outcome, and the processes that it has left behind."""
        limit, mark = min(stage.minutes * 60, self._seconds_left()), f"{self.name}/{stage.name}"
        try:
            process = subprocess.Popen(
                stage.command,
                env={**self._environment, MARK: mark, **self._for_tests(stage), **stage.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"FAILED: {error}", []
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            processes.end(lambda: processes.of_mark(mark), _GRACE)
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_KILLED_WITHIN)
            if stage.spare and limit < stage.minutes * 60:
                return f"{_LEFT}: it was not over after {limit:.0f} s, and no more were left", []
            return f"FAILED: over its limit of {limit:.0f} s", []
        left = processes.end(lambda: processes.of_mark(mark), _GRACE)
        return "ok" if code == 0 else f"FAILED ({code})", [str(each) for each in left]

    def _for_tests(self, stage: Stage) -> dict[str, str]:
        if not stage.tests:
            return {}
        folder = self._reports / stage.name
        folder.mkdir(parents=True)
        options = shlex.quote(f"--junitxml={folder}/pytest.xml")
        return {"PYTEST_ADDOPTS": options, "TRAINER_TEST_REPORTS": str(folder)}

    def _seconds_left(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()


def _is_inherited(name: str) -> bool:
    return name not in _NOT_INHERITED and not name.startswith(_NOT_INHERITED_PREFIXES)


def _test_files(folders: Sequence[str]) -> list[str]:
    return sorted(str(file) for folder in folders for file in Path(folder).rglob("test_*.py"))
