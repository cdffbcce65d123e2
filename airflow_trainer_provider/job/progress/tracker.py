"""Tracks the progress of a training. Sans-IO: lines, statuses and times in, a snapshot for views out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from airflow_trainer_provider.job.progress.history import History
from airflow_trainer_provider.job.progress.rate import Rate
from airflow_trainer_provider.job.progress.report import Malformed, Patterns, Report, read_json_line, whole_steps
from airflow_trainer_provider.job.status import JobStatus, Progress
from airflow_trainer_provider.text.numbers import json_number
from airflow_trainer_provider.training.progress import MOST_METRICS

#: The position of a line in the log of the leader. Its numbers depend on the backend, and increase.
Position = tuple[int, int]

_MOST_RESTARTS = 50
#: Seconds for which lines from before a restart may still arrive.
_LATE_LINES = 3.0
#: Seconds for which the status of a restart may arrive after the restart's first lines.
_LATE_STATUS = 60.0
#: Seconds of work whose loss is worth a warning where no checkpoint is known.
_MUCH_WORK = 600.0
#: An estimated end that is further away counts as unknown.
_LONGEST_SECONDS = 10 * 365 * 86400.0


class Tracker:
    """The progress of one job.

    :param job: uid of the job.
    :param leader: name of the replica whose lines count.
    :param metrics: name -> regular expression, as the spec has them.
    :param earlier: the snapshot of an earlier process, from which to continue; None for none.
    """

    def __init__(
        self, job: str, leader: str, metrics: Mapping[str, str], earlier: Mapping[str, Any] | None = None
    ) -> None:
        self._job = job
        self._leader = leader
        self._patterns = Patterns(metrics)
        self._step: int | None = None
        self._total: int | None = None
        self._percent: float | None = None
        # Whether the percentage was reported without a step, and after the last step.
        self._is_percent_newer = False
        self._remaining: float | None = None
        self._earlier_rate: float | None = None
        # The rate of the steps so far, of whichever attempt.
        self._last_rate: float | None = None
        self._rate = Rate()
        self._reported_at: float | None = None
        self._metrics: dict[str, float] = {}
        self._attempt = 0
        self._restarts: list[dict[str, Any]] = []
        self._checkpoint: dict[str, Any] | None = None
        self._resumed_from: dict[str, Any] | None = None
        self._history = History()
        self._position: Position | None = None
        # Lines up to here were observed, in an earlier process or before the reading of the log began again.
        self._known_to: Position | None = None
        self._job_restarts: int | None = None
        self._restarted_at: float | None = None
        # When the steps last went back without a known restart of the job.
        self._went_back_at: float | None = None
        self._last_progress: Progress | None = None
        # Whether the earlier snapshot belongs to this job.
        self._goes_on = False
        #: How often something was reported.
        self.version = 0
        #: Why the first report that could not be read was ignored; None for none so far.
        self.ignored: str | None = None
        #: The work that the last restart has lost, if it was much and no checkpoint is known; None for no such restart.
        self.unsaved: str | None = None
        # The same for steps that went back without a known restart of the job: a script may count from 0 again.
        self._maybe_unsaved: str | None = None
        if earlier:
            self._restore(earlier)

    @property
    def position(self) -> Position | None:
        """The position up to which lines were observed; None where none was."""
        return self._position

    def resume(self) -> None:
        """Note that the reading of the log begins, possibly again: lines that were already observed may come again."""
        self._known_to = self._position

    def observe(self, text: str, at: float, position: Position) -> None:
        """Process a line of the leader.

        :param text: of the line.
        :param at: when it was written, in seconds since 1970, as far as the backend knows.
        :param position: of the line; after :meth:`resume`, and in another process, lines that are known are ignored.
        """
        if self._known_to is not None and position <= self._known_to:
            return
        self._position, self._known_to = position, None
        # Each reader is handled separately: what an expression finds may not be a number, although the line has a
        # report in JSON.
        for read in (read_json_line, self._patterns.read):
            try:
                report = read(text)
                if report is not None:
                    self._take(report, at)
            except Malformed as error:
                self._ignore(str(error))
            except Exception as error:
                # Otherwise the error would end the reading of the log, at this line again and again.
                self._ignore(f"{type(error).__name__}: {error}")

    def observe_status(self, status: JobStatus, now: float) -> None:
        """Process a status of the job: its restarts, and the progress that its controller knows.

        :param status: of the job; it may be the same as before.
        :param now: the time, in seconds since 1970.
        """
        leader = next((each for each in status.replicas if each.name == self._leader), None)
        restarts = max(status.restarts, leader.restarts if leader else 0)
        if self._job_restarts is not None and restarts > self._job_restarts:
            self._note_restart(now)
        self._job_restarts = restarts
        known = status.progress
        if known is not None and known != self._last_progress:
            is_first, self._last_progress = self._last_progress is None, known
            if not (is_first and self._is_restored(known)):
                self._take(Report(None, None, known.percent, known.remaining_seconds, known.metrics), now)

    def _is_restored(self, known: Progress) -> bool:
        """Whether an earlier process has already reported this progress."""
        values = {name: self._metrics.get(name) for name in known.metrics}
        return self._goes_on and known.percent in (None, self._percent) and values == known.metrics

    def _note_restart(self, now: float) -> None:
        # Lines may arrive before the status: then the attempt has already begun.
        is_known = self._went_back_at is not None and now - self._went_back_at < _LATE_STATUS
        self._restarted_at = self._restarted_at if is_known else now
        self.unsaved = (is_known and self._maybe_unsaved) or self.unsaved
        self._went_back_at = None

    def snapshot(self) -> dict[str, Any] | None:
        """All that is known, as JSON values; None while nothing was reported."""
        if self._reported_at is None:
            return None
        summary = self.summary() or {}
        rate = self._rate.value() or self._earlier_rate
        return {
            **summary,
            "steps_per_second": None if rate is None else float(f"{rate:.4g}"),
            "estimated_end": _iso(self._end(rate)),
            "reported_at": _iso(self._reported_at),
            "restarts": [dict(each) for each in self._restarts],
            "history": self._history.to_json(),
            "position": [self._job, *(self._position or self._known_to or ())],
        }

    def summary(self) -> dict[str, Any] | None:
        """The part of the progress that is kept when the job has ended; None where nothing was reported."""
        if self._reported_at is None:
            return None
        return {
            "step": self._step,
            "total_steps": self._total,
            "percent": self._share(),
            "metrics": {name: json_number(value) for name, value in self._metrics.items()},
            "attempt": self._attempt,
            "restarts": [dict(each) for each in self._restarts],
            "checkpoint": dict(self._checkpoint) if self._checkpoint else None,
            "resumed_from": dict(self._resumed_from) if self._resumed_from else None,
        }

    @property
    def metrics(self) -> dict[str, float]:
        """The last finite values."""
        return {name: value for name, value in self._metrics.items() if math.isfinite(value)}

    def _ignore(self, why: str) -> None:
        self.ignored = self.ignored or why

    def _take(self, report: Report, at: float) -> None:
        self.version += 1
        self._reported_at = at
        self._total = self._total if report.total_steps is None else report.total_steps
        self._note_percent(report)
        self._remaining = None if report.remaining_seconds is None else at + report.remaining_seconds
        if report.step is not None:
            self._move(report.step, at)
        if report.checkpoint is not None:
            self._note_checkpoint(report.checkpoint, at)
        if report.resumed_from is not None:
            self._note_resumption(report.resumed_from, at)
        for name, value in report.metrics.items():
            if name in self._metrics or len(self._metrics) < MOST_METRICS:
                self._metrics[name] = value
                self._history.add(name, self._attempt, self._step, at, value)
            else:
                self._ignore(f"the job has more than {MOST_METRICS} metrics")

    def _note_percent(self, report: Report) -> None:
        if report.percent is not None:
            self._percent = report.percent
        if report.step is not None or report.percent is not None:
            # If both are reported, the step is more precise. A percentage alone may be the end of a training that stops
            # before its last step.
            self._is_percent_newer = report.step is None

    def _move(self, step: int, at: float) -> None:
        last = self._step
        self._step = step
        is_restarted = self._restarted_at is not None and at > self._restarted_at + _LATE_LINES
        if last is not None and (step < last or is_restarted):
            self._attempt += 1
            self._maybe_unsaved = self._loss(last - step)
            if self._restarted_at is not None:
                self.unsaved = self._maybe_unsaved
            self._went_back_at = at if self._restarted_at is None else None
            self._restarted_at = self._earlier_rate = None
            self._rate = Rate()
            lost = {"at": _iso(at), "from_step": step, "lost_steps": max(last - step, 0)}
            self._restarts = [*self._restarts, lost][-_MOST_RESTARTS:]
        self._rate.add(at, step)
        self._last_rate = self._rate.value() or self._last_rate

    def _loss(self, steps: int) -> str | None:
        """The work that the lost steps were worth, as text; None where it is not much, or a checkpoint is known."""
        seconds = steps / self._last_rate if self._last_rate else 0.0
        if seconds <= _MUCH_WORK or self._checkpoint or self._resumed_from:
            return None
        return f"{steps:,} steps, about {seconds / 60:,.0f} minutes of work"

    def _note_checkpoint(self, checkpoint: Mapping[str, Any], at: float) -> None:
        known = self._checkpoint or {}
        step = self._step if checkpoint["step"] is None else checkpoint["step"]
        if (step, checkpoint["path"]) != (known.get("step"), known.get("path")):
            self._checkpoint = {"step": step, "at": _iso(at), "path": checkpoint["path"]}

    def _note_resumption(self, checkpoint: Mapping[str, Any], at: float) -> None:
        known = self._checkpoint or {}
        # A script that finds a checkpoint by its path need not know the step, which was reported when the checkpoint
        # was written.
        is_known = checkpoint["step"] is None and checkpoint["path"] == known.get("path")
        step = known.get("step") if is_known else checkpoint["step"]
        self._resumed_from = {"step": step, "at": _iso(at), "path": checkpoint["path"]}

    def _share(self) -> float | None:
        of_steps = self._share_of_steps()
        return self._percent if of_steps is None or self._is_percent_newer else of_steps

    def _share_of_steps(self) -> float | None:
        if self._step is None or not self._total:
            return None
        return min(100.0, round(100 * self._step / self._total, 1))

    def _end(self, rate: float | None) -> float | None:
        end = self._remaining
        if rate and self._step is not None and self._total and self._reported_at is not None:
            end = self._reported_at + max(self._total - self._step, 0) / rate
        is_known = end is not None and end - (self._reported_at or 0.0) <= _LONGEST_SECONDS
        return end if is_known else None

    def _restore(self, earlier: Mapping[str, Any]) -> None:
        # Anything may write to XCom: a value in another format is not a snapshot.
        try:
            reported_at = datetime.fromisoformat(earlier["reported_at"]).timestamp()
            history = History.parse(earlier["history"])
            metrics = {name: float(value) for name, value in earlier["metrics"].items()}
            job, *numbers = earlier["position"]
            known_to = (int(numbers[0]), int(numbers[1])) if numbers else None
            remaining = _seconds(earlier.get("estimated_end"))
            step = whole_steps("step", earlier.get("step"))
            total = whole_steps("total_steps", earlier.get("total_steps"), least=1)
            percent, rate = (_number(earlier.get(name)) for name in ("percent", "steps_per_second"))
            attempt = int(earlier.get("attempt") or 0)
            restarts = [dict(each) for each in earlier.get("restarts") or ()]
            checkpoint, resumed_from = _mapping(earlier, "checkpoint"), _mapping(earlier, "resumed_from")
        except Exception:
            return
        self._reported_at, self._history, self._metrics = reported_at, history, metrics
        self._step, self._total, self._percent = step, total, percent
        self._earlier_rate = self._last_rate = rate
        self._attempt, self._restarts = attempt, restarts
        self._checkpoint, self._resumed_from = checkpoint, resumed_from
        self._is_percent_newer = percent not in (None, self._share_of_steps())
        if job == self._job:
            self._known_to = self._position = known_to
            self._goes_on, self._remaining = True, remaining
            if self._step is not None:
                self._rate.add(reported_at, self._step)
        else:
            # The infrastructure made the previous job fail, and this job continues from its last checkpoint.
            self._restarted_at, self._earlier_rate = -math.inf, None


def _mapping(values: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return dict(values.get(name) or {}) or None


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _seconds(at: Any) -> float | None:
    return None if at is None else datetime.fromisoformat(at).timestamp()


def _iso(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")
