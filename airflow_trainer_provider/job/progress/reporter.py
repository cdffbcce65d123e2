"""Reports the progress and the status of a job for display: at intervals, and only what has changed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from itertools import chain, repeat
from typing import Any

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.progress.stages import Stages
from airflow_trainer_provider.job.progress.tracker import Position, Tracker
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.timeouts import end_tasks, with_timeout

log = logging.getLogger(__name__)

#: Seconds between two writes.
PACE = 10.0
#: Seconds in which all remaining reads and writes have to be done at the job's end.
LAST_SECONDS = 10.0
#: Seconds for which the lines of a job wait until the reports of an earlier process have been read.
READ_SECONDS = 60.0
#: Seconds before the earlier reports are read again after a failure.
PAUSES = (5.0, 10.0, 20.0, 40.0)
_LONGEST_PAUSE = 60.0
#: How many times they are read at the job's end, each a tenth of ``LAST_SECONDS`` after the previous time.
_LAST_READS = 5
#: How many reports and statuses are kept until the earlier reports are known.
_MOST_EARLY = 1000

_HOW_TO = "docs/how-to/checkpoints.md says how to save them, and to begin at the last one"

#: What has changed: the values of ``progress`` and ``status``.
Values = Mapping[str, Mapping[str, Any]]
#: Writes what has changed. Its arguments are a function that returns the changes, to be called in the event loop just
#: before the write, and whether the job has ended.
Report = Callable[[Callable[[], Values], bool], Awaitable[None]]
#: Reads what was written last; empty where nothing was written. Its argument is whether the job has ended.
Load = Callable[[bool], Awaitable[Values]]


class Reporter:
    """Reports one job. Neither a report that fails nor one that hangs ends or delays the wait for the job.

    The reports of an earlier process are not overwritten before they are known, except at the job's end.

    :param handle: the job.
    :param metrics: name -> regular expression, as the spec has them.
    :param report: writes what has changed.
    :param load: returns what an earlier process has reported.
    """

    def __init__(self, handle: JobHandle, metrics: Mapping[str, str], report: Report, load: Load) -> None:
        self.tracker = Tracker(handle.uid, handle.leader, metrics)
        self._stages = Stages()
        self._handle = handle
        self._metrics = metrics
        self._report = report
        self._load = load
        self._loading: asyncio.Task[None] | None = None
        self._lines_wait_until = 0.0
        # Whether what an earlier process has reported is known.
        self._is_known = False
        # Each callback processes again what arrived before that.
        self._early: deque[Callable[[], None]] = deque(maxlen=_MOST_EARLY)
        # The versions of the values that were written last.
        self._written = self._versions()
        self._writing: asyncio.Task[None] | None = None
        self._is_handing_on = False
        self._said_unsaved: str | None = None
        # Each kind of failure is logged once.
        self._has_failed = self._has_not_read = False
        # Whether an earlier process has reported the job's status, as far as that is known.
        self._has_status = True

    async def begin_lines(self) -> None:
        """Prepare for the lines of the log, before they are read for the first time or again."""
        await self.ready()
        self.tracker.resume()

    async def ready(self) -> None:
        """Wait until what an earlier process has reported is known, or until lines no longer wait for that."""
        loading = self._load_once()
        await asyncio.wait({loading}, timeout=max(0.0, self._lines_wait_until - time.monotonic()))

    def _load_once(self) -> asyncio.Task[None]:
        """The task that reads what an earlier process has reported; it is started once."""
        if self._loading is None:
            self._lines_wait_until = time.monotonic() + READ_SECONDS
            self._loading = asyncio.ensure_future(self._begin())
        return self._loading

    async def _begin(self) -> None:
        await self._read(chain(PAUSES, repeat(_LONGEST_PAUSE)))
        self._plan()

    async def _read(self, pauses: Iterable[float], *, is_last: bool = False) -> None:
        """Read what an earlier process has reported; after a failure, pause and try again."""
        for pause in pauses:
            try:
                earlier = await self._load(is_last)
            except Exception as error:
                self._note_unread(error)
                await asyncio.sleep(pause)
            else:
                self._go_on_from(earlier)
                break

    def _go_on_from(self, earlier: Values) -> None:
        self._is_known = True
        self._has_status = "status" in earlier
        self.tracker = Tracker(self._handle.uid, self._handle.leader, self._metrics, earlier.get("progress"))
        self._stages = Stages(earlier.get("status"))
        self._written = self._versions()
        for take_in in self._early:
            take_in()
        self._early.clear()

    @property
    def since(self) -> Position | None:
        """The position up to which lines of the leader were observed; (0, 0) where none was.

        None where an earlier process has reported, or may have reported, the job's status but no progress. Reading the
        whole log again at each restart of a triggerer would take long with thousands of such jobs.
        """
        if self.tracker.position is None and self._has_status:
            return None
        return self.tracker.position or (0, 0)

    def line(self, text: str, at: float | None, position: Position) -> str | None:
        """Process a line of the leader.

        :param text: of the line.
        :param at: when it was written, in seconds since 1970; None for now.
        :param position: of the line.
        :return: a note for the log: once, why a report is ignored; and what a restart without a checkpoint has cost.
        """
        at = time.time() if at is None else at
        tracker = self.tracker
        ignored, version = tracker.ignored, tracker.version
        tracker.observe(text, at, position)
        if (tracker.ignored, tracker.version) != (ignored, version):
            # By the tracker that exists at that time.
            self._took_in(lambda: self.tracker.observe(text, at, position))
        if ignored is None and tracker.ignored is not None:
            return f"... a report of progress was ignored, and others like it may be: {tracker.ignored}"
        # The loss may be known from a status that came between two lines.
        unsaved, self._said_unsaved = self._said_unsaved, tracker.unsaved
        if tracker.unsaved not in (None, unsaved):
            return f"... a restart has lost {tracker.unsaved}, and no checkpoint is known: {_HOW_TO}"
        return None

    def status(self, status: JobStatus) -> None:
        """Process a status of the job."""
        self._load_once()
        now, version = time.time(), self._stages.version
        self._observe(status, now)
        if self._stages.version != version:
            self._took_in(lambda: self._observe(status, now))

    def _observe(self, status: JobStatus, now: float) -> None:
        for observe in (self.tracker.observe_status, self._stages.observe):
            try:
                observe(status, now)
            except Exception as error:
                _warn("A status of training job %s is not reported: %s", self._handle.name, error)

    def _took_in(self, once_more: Callable[[], None]) -> None:
        if self._is_known:
            self._plan()
        else:
            self._early.append(once_more)

    async def finish(self) -> None:
        """Write the last state, if that is possible in time."""
        await self._stop_writing()
        await self._hand_on(self._finish(), LAST_SECONDS)

    async def _finish(self) -> None:
        if not self._is_known:
            await self._stop_loading()
            # If every read fails but a write works, e.g. because Airflow cannot read the value, the last state is more
            # useful than the earlier one. A read that takes too long is not such a failure: nothing is written then.
            await self._read(repeat(LAST_SECONDS / (2 * _LAST_READS), _LAST_READS), is_last=True)
        if self._has_news():
            await self._report(self._news, True)

    async def close(self) -> None:
        """Stop reading and writing."""
        await self._stop_loading()
        await self._stop_writing()

    async def _stop_loading(self) -> None:
        if self._loading:
            await end_tasks([self._loading])

    async def _stop_writing(self) -> None:
        if self._writing:
            await end_tasks([self._writing])
            self._writing = None
            if self._is_handing_on:
                # It is unknown whether that was written.
                self._written = dict.fromkeys(self._written, -1)

    def _plan(self) -> None:
        if self._has_news() and (self._writing is None or self._writing.done()):
            self._writing = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        while self._has_news():
            # Without a timeout: many jobs may be written before this one, and after giving up it would wait behind all
            # of them again.
            await self._hand_on(self._report(self._news, False), None)
            await asyncio.sleep(PACE)

    async def _hand_on(self, writing: Awaitable[None], seconds: float | None) -> None:
        self._is_handing_on = True
        try:
            await with_timeout(writing, seconds)
            self._is_handing_on = False
        except Exception as error:
            self._note_failure(error)

    def _has_news(self) -> bool:
        return self._written != self._versions()

    def _versions(self) -> dict[str, int]:
        return {"progress": self.tracker.version, "status": self._stages.version}

    def _news(self) -> Values:
        """What has changed since the last time. It then counts as written."""
        versions = self._versions()
        changed = {name for name, version in versions.items() if version != self._written[name]}
        found = {
            "progress": self.tracker.snapshot() if "progress" in changed else None,
            "status": self._stages.snapshot(datetime.now(timezone.utc)) if "status" in changed else None,
        }
        self._written = versions
        return {name: value for name, value in found.items() if value is not None}

    def _note_unread(self, error: Exception) -> None:
        if not self._has_not_read:
            self._has_not_read = True
            _warn("What was reported of training job %s before cannot be read yet: %s", self._handle.name, error)

    def _note_failure(self, error: Exception) -> None:
        # What was not written is written with the next change.
        self._written = dict.fromkeys(self._written, -1)
        if not self._has_failed:
            self._has_failed = True
            _warn("The progress of training job %s could not be written: %s", self._handle.name, error)


def _warn(text: str, name: str, error: Exception) -> None:
    # The process's own log may be on a full disk.
    with suppress(Exception):
        log.warning(text, name, str(error) or type(error).__name__)
