"""Follows the log of one container of one pod, over its restarts and over broken connections."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_trainer_provider.cluster.answers import NO_ANSWER
from airflow_trainer_provider.cluster.logs import read_deadline
from airflow_trainer_provider.cluster.logs.cursor import Deduplicator, split_time
from airflow_trainer_provider.cluster.logs.pace import Pace
from airflow_trainer_provider.cluster.logs.read_deadline import ReadDeadline
from airflow_trainer_provider.cluster.logs.step import Known, Step, next_step
from airflow_trainer_provider.cluster.logs.streams import LogStreams
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.kinds.base import PODS, Manifest
from airflow_trainer_provider.kinds.objects.pod_secrets import pods_mask
from airflow_trainer_provider.text.mask import Mask
from airflow_trainer_provider.text.printable import LONGEST_LINE, plain, shorten
from airflow_trainer_provider.timeouts import end_tasks

if TYPE_CHECKING:
    from airflow_trainer_provider.cluster.api.client import Client

#: The first and the longest pause between two attempts; seconds.
BACKOFF_FIRST = 0.5
BACKOFF_MOST = 30.0
#: A container that has not started is checked again when its pod changes, and at the latest after so many seconds.
_WAITING = 60.0
#: How long a reader keeps its permit at least while others wait for one: where its log is quiet, and where lines keep
#: coming. A log is quiet after the third number of seconds without a line.
_STREAM_SECONDS = 5.0
_LONG_STREAM_SECONDS = 30.0
_QUIET = 0.5
# A connection that lasted so long counts as a success; seconds.
_GOOD = 10.0
#: The bytes of a block that need no cleaning: printable ASCII, tabs and line breaks.
_PRINTABLE = bytes((*b"\t\n", *range(0x20, 0x7F)))
#: What the kubelet answers, with status 200, in place of a log that it does not have any more.
_NO_LOG = re.compile(rb"unable to retrieve container logs|failed to (try resolving symlinks|open log file)", re.I)
# How far before the last line that was shown the log of an earlier run is read, in seconds: where a run crashed at
# once, lines of the next run may have been read first.
_OVERLAP = 5


class Runs(NamedTuple):
    """The runs of a container.

    :param started: how often it was started.
    :param kept: of how many of the last runs the kubelet gives the log.
    :param is_running: whether it runs now.
    """

    started: int
    kept: int
    is_running: bool


class Pod:
    """A pod as it was last seen. The readers of its containers share it.

    :param manifest: the pod.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        #: Whether the watch has reported that the pod is deleted; its logs are deleted with it.
        self.gone = False
        #: When a request did not find the pod, by the monotonic clock; None while it exists, as far as is known. Its
        #: last version is yet to come from the watch.
        self.missing_since: float | None = None
        #: Set at the next change, and then replaced by another event: get it before you look at the pod.
        self.changed = asyncio.Event()

    @property
    def uid(self) -> str:
        """Its uid. A pod that is created again under the same name has another one."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def version(self) -> str:
        """Its resource version."""
        return str(self.manifest["metadata"]["resourceVersion"])

    @property
    def ended(self) -> bool:
        """Whether none of its containers will ever start again."""
        return self.gone or (self.manifest.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    def update(self, manifest: Manifest, *, gone: bool = False) -> None:
        """Store a version of the pod, and wake all waiters if it differs from the stored one.

        A reader whose log fails reads the pod again: without a change this must not wake the readers that wait for one.
        A watch that lags behind such a reader must not take back what the reader knows, such as that a container ran.

        :param gone: whether it has been deleted.
        """
        gone = gone or self.gone
        if _is_older(manifest, self.manifest):
            manifest = self.manifest
        if (manifest["metadata"]["resourceVersion"], gone) == (self.version, self.gone):
            return
        self.manifest, self.gone = manifest, gone
        self.wake()

    def miss(self) -> None:
        """Note that a request has not found the pod."""
        if self.missing_since is None:
            self.missing_since = time.monotonic()
            self.wake()

    def wake(self) -> None:
        """Wake all waiters, which then look at the pod again."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def runs(self, container: str) -> Runs:
        """The runs of a container.

        While it waits to be started again, the kubelet gives the log of the last run, also when it is asked for the log
        of the run before (``validateContainerLogStatus`` in ``pkg/kubelet/kubelet_pods.go``).
        """
        status = self._status(container)
        state, restarts = status.get("state") or {}, int(status.get("restartCount") or 0)
        is_running = state.get("running") is not None
        is_waiting = not is_running and not _has_ended(state)
        has_started = not is_waiting or _has_ended(status.get("lastState") or {})
        return Runs(restarts + 1 if has_started else restarts, 1 if is_waiting else 2, is_running)

    def started_at(self, container: str, run: int) -> str:
        """When a container's last run was started, or the run before it; RFC 3339, empty where it is not known.

        :param run: its number, from 1 on.
        """
        runs = self.runs(container)
        is_state = run == runs.started and runs.kept > 1
        state = self._status(container).get("state" if is_state else "lastState") or {}
        return str(next((each.get("startedAt") or "" for each in state.values()), ""))

    def _status(self, container: str) -> Mapping[str, Any]:
        found = self.manifest.get("status") or {}
        statuses = [*(found.get("initContainerStatuses") or ()), *(found.get("containerStatuses") or ())]
        return next((each for each in statuses if each["name"] == container), {})


class _Overtaken(Exception):
    """The log that was opened is not the requested one: the container has been started again, or another pod has the
    name.
    """


class ContainerLog:
    """Emits each log line of a container exactly once.

    :param client: of the cluster. Each container that runs holds one of its connections.
    :param pod: the container's pod, which the caller keeps up to date.
    :param container: its name.
    :param deduplicator: knows which lines were read before.
    :param emit: takes lines, each with its time.
    :param note: takes messages about the log itself.
    :param ended: set when the job has ended, so that nothing will be written any more.
    """

    def __init__(
        self,
        client: Client,
        pod: Pod,
        container: str,
        deduplicator: Deduplicator,
        emit: Callable[[list[tuple[int, str]]], Awaitable[None]],
        note: Callable[[str], Awaitable[None]],
        ended: asyncio.Event,
    ) -> None:
        self._client = client
        self._pod = pod
        self._container = container
        self._deduplicator = deduplicator
        self._emit = emit
        self._note = note
        self._job_ended = ended
        # How many of the container's runs have been read to their end.
        self._read_runs = 0
        # Whether that number is known: an earlier reader may have read more runs.
        self._knows_runs = deduplicator.since() is None
        # The time of the last line that was read as a line of the run before the last one.
        self._previous_until: int | None = None
        # When a connection last read the log to its end; None after new lines.
        self._whole_at: float | None = None
        self._backoff = client.backoff(BACKOFF_FIRST, BACKOFF_MOST)
        self._refused_since: float | None = None
        self._last_error: ApiError | BackendUnavailable | None = None
        #: When the log is given up.
        self.deadline = ReadDeadline()
        self._streams = LogStreams.here()
        self._pace = Pace.here()
        self._reading: asyncio.Task[None] | None = None
        self._is_leaving = False
        # Whether something unexpected happened: another pod may have been created under this pod's name.
        self._is_in_doubt = False
        # Whether the pod has been read again since the job's end: the watch of the pods may lag behind.
        self._is_last_look_done = False

    async def run(self) -> None:
        """Read until no more lines can follow."""
        while True:
            changed = self._pod.changed
            runs = self._pod.runs(self._container)
            step = next_step(self._known(runs.started))
            if step is Step.STOP:
                return
            if step is Step.GIVE_UP:
                await self.give_up("its pod is gone")
                return
            if step is Step.WAIT:
                await changed.wait()
                continue
            try:
                await (self._look() if step is Step.LOOK else self._read_run(runs, changed))
            except (ApiError, BackendUnavailable) as error:
                if not await self._recover(error, runs.started, changed):
                    return

    def _known(self, runs: int) -> Known:
        """What is known of the container.

        :param runs: how often it was started.
        """
        facts = {
            Known.READ: runs <= self._read_runs,
            Known.OVER: self._pod.ended or self._is_last_look_done,
            Known.GONE: self._pod.gone,
            Known.MISSING: self._pod.missing_since is not None,
            Known.JOB_ENDED: self._job_ended.is_set(),
            Known.IN_DOUBT: self._is_in_doubt,
        }
        return reduce(or_, (fact for fact, holds in facts.items() if holds), Known(0))

    async def _read_run(self, runs: Runs, changed: asyncio.Event) -> None:
        """Read the first run that has not been read, out of those whose logs the kubelet gives.

        :param runs: those of the container.
        :param changed: set when the pod changes.
        """
        await self._skip_to(runs.started - runs.kept)
        previous = runs.started - 1 > self._read_runs
        try:
            has_ended = await self._read_with_permit(runs, previous=previous, follow=runs.is_running and not previous)
        except _Overtaken:
            return
        if not has_ended:
            return
        if previous or not runs.is_running:
            self._read_runs = runs.started - 1 if previous else runs.started
            # Only that run's log is known to be complete, not the log of a later run.
            self._whole_at = None
        else:
            # The pod's end is not known yet, or the kubelet rotated the log: there may be more lines.
            self._is_in_doubt = True
            await self._pause(changed)

    async def _recover(self, error: ApiError | BackendUnavailable, runs: int, changed: asyncio.Event) -> bool:
        """Wait until another attempt may help.

        :param error: the error of this attempt.
        :param runs: how often the container was started.
        :param changed: set when the pod changes.
        :return: False where no attempt can help any more.
        """
        status = error.status if isinstance(error, ApiError) else None
        if status == 400 and runs - 1 > self._read_runs:
            await self._skip_to(runs - 1)
            return True
        self._is_in_doubt = True
        self._last_error = error
        if self._is_hopeless(status):
            await self.give_up(str(error))
            return False
        await self._pause(changed, waiting=status == 400)
        return True

    async def give_up(self, why: str) -> None:
        """Note which part of the log is not shown, if any.

        :param why: the reason why it cannot be read.
        """
        runs = self._pod.runs(self._container).started
        # A pod may be deleted right after its container has ended, before its log can be requested once more.
        until = self._pod.missing_since or time.monotonic()
        whole = self._whole_at is not None and until - self._whole_at < _GOOD
        if runs <= self._read_runs or (whole and runs == self._read_runs + 1):
            return
        what = "the log" if self._deduplicator.since() is None else "the rest of the log"
        error = f" ({self._last_error})" if self._last_error and str(self._last_error) != why else ""
        await self._say(f"{what} of {self} is missing here: {why}{error}")

    async def _say(self, text: str) -> None:
        with self.deadline.paused():
            await self._note(text)

    def __str__(self) -> str:
        return f"container {self._container} in pod {self._pod.manifest['metadata']['name']}"

    async def _skip_to(self, run: int) -> None:
        """Continue after a run whose log no longer exists.

        :param run: the last such run; it may have been read.
        """
        if run <= self._read_runs:
            return
        which = f"run {run}" if run == self._read_runs + 1 else f"runs {self._read_runs + 1} to {run}"
        if not self._knows_runs:
            which = f"{which} that were not shown before" if self._may_have_missed(run) else ""
        if which:
            await self._say_lost(which)
        self._read_runs = run
        self._knows_runs = True

    async def _say_lost(self, which: str) -> None:
        await self._say(f"{self} was started again; lines of its {which} are lost, as the kubelet gives no log of them")

    def _may_have_missed(self, run: int) -> bool:
        """Whether an earlier reader stopped before the first run whose log still exists.

        :param run: the run before that one.
        """
        return (self._deduplicator.since() or "") <= self._pod.started_at(self._container, run + 1)

    async def _read_with_permit(self, runs: Runs, *, previous: bool, follow: bool) -> bool:
        """Read until the log ends, or another reader wants the permit.

        :param runs: those of the container.
        :param previous: whether to read the run before the last one.
        :param follow: whether to wait for lines until the container ends. A followed log comes line by line, which
            costs the API server more.
        :return: whether the log has ended.
        :raises ApiError: the log could not be read to its end.
        :raises _Overtaken: the container has been started again, or another pod has the name.
        """
        self._is_leaving = False
        async with AsyncExitStack() as stack:
            with self.deadline.paused():
                had_to_wait = await stack.enter_async_context(self._streams.permit(self._leave))
            if had_to_wait:
                self.deadline.extend()
                self._check_runs(runs)
            # A separate task, so that it can be cancelled without cancelling the reader.
            self._reading = asyncio.create_task(self._read(runs, previous=previous, follow=follow))
            try:
                await asyncio.wait({self._reading})
            finally:
                await end_tasks([self._reading])
            if not self._reading.cancelled():
                self._reading.result()
            elif not self._is_leaving:
                raise ApiError("the request was cancelled in the HTTP client", reason=NO_ANSWER)
        return not self._is_leaving

    def _leave(self, had: float) -> bool:
        """Release the permit for another reader, unless this one still needs it.

        :param had: how long it has been held, in seconds.
        :return: whether the permit will be released because of this call: False where it was requested before, and the
            reader is paused.
        """
        is_busy = self.deadline.is_paused or self.deadline.idle_since(0) < _QUIET
        if self._job_ended.is_set() or had < (_LONG_STREAM_SECONDS if is_busy else _STREAM_SECONDS):
            return False
        was_asked, self._is_leaving = self._is_leaving, True
        if self._reading and not self.deadline.is_paused:
            self._reading.cancel()
        return not was_asked

    async def _read(self, runs: Runs, *, previous: bool, follow: bool) -> None:
        """Read the lines of one connection.

        :param runs: those of the container, as far as they were known.
        :param previous: whether to read the run before the last one.
        :param follow: whether to wait for lines until the container ends.
        """
        metadata = self._pod.manifest["metadata"]
        mask = pods_mask([self._pod.manifest])
        since, started = self._deduplicator.since(_OVERLAP if previous else 0), time.monotonic()
        self._deduplicator.resume()
        stream = self._client.log_blocks(
            metadata["namespace"],
            metadata["name"],
            self._container,
            follow=follow,
            since_time=since,
            previous=previous,
        )
        last: int | None = None
        is_first = True
        try:
            async with aclosing(stream):
                async for block in stream:
                    with self.deadline.paused():
                        await self._pace.turn()
                    lines = [split_time(line) for line in block.split(b"\n")]
                    if is_first:
                        await self._begin(runs, lines[0], since, previous=previous)
                        is_first = False
                    new = self._new_lines(lines, last, _reads(block, mask))
                    if new:
                        last = new[-1][0]
                        await self._hand_on(new, previous=previous)
                    self.deadline.extend()
                    if self._is_leaving:
                        return
            if is_first:
                await self._make_sure(runs)
        finally:
            if last is not None or time.monotonic() - started > _GOOD:
                self._backoff.reset()
        self._whole_at = time.monotonic()
        self._refused_since = self._last_error = None

    def _new_lines(
        self, lines: list[tuple[int | None, bytes]], last: int | None, read: Callable[[bytes], str]
    ) -> list[tuple[int, str]]:
        """The lines that have not been read before, as text.

        :param lines: of a block.
        :param last: the time of the last new line before them.
        :param read: converts a line to text.
        """
        old = self._deduplicator.new_of([at for at, _ in lines if at is not None])
        new = []
        for at, text in lines:
            if at is not None and old:
                old -= 1
                continue
            last = last if at is None else at
            # A line without a time belongs to the line before it, and is new only if that one is.
            if last is not None:
                new.append((last, read(text)))
        return new

    async def _hand_on(self, lines: list[tuple[int, str]], *, previous: bool) -> None:
        self._whole_at = None
        if previous:
            self._previous_until = lines[-1][0]
        with self.deadline.paused():
            await self._emit(lines)

    async def _begin(self, runs: Runs, first: tuple[int | None, bytes], since: str | None, *, previous: bool) -> None:
        """Process the first line of a connection.

        :param runs: those of the container, as far as they were known.
        :param first: the line, with its time.
        :param since: from which time on the log was requested; None for all of it.
        :param previous: whether the log of the run before the last one was requested.
        :raises ApiError: the kubelet answered with status 200, and then found no log.
        :raises _Overtaken: the container has been started again, or another pod has the name.
        """
        at, text = first
        if at is None and (since is None or _NO_LOG.match(text)):
            raise ApiError(text.decode("utf-8", "replace"))
        await self._make_sure(runs)
        if not previous:
            await self._judge_previous(at)

    async def _judge_previous(self, begin: int | None) -> None:
        """Note that the run before was lost, where the log of the last run was read in its place.

        The kubelet can know before the API server that the container waits to be started again.

        :param begin: the time of the first line of the last run.
        """
        until, self._previous_until = self._previous_until, None
        if until is not None and begin is not None and begin <= until:
            await self._say_lost(f"run {self._read_runs}")

    async def _make_sure(self, runs: Runs) -> None:
        """Check that the log that was opened is the requested one: the watch may lag behind.

        :param runs: those of the container, as far as they were known.
        :raises _Overtaken: they have changed, or another pod has the name.
        """
        # No container of a pod that has ended starts again.
        if not self._pod.ended and not await self._look():
            raise _Overtaken
        self._check_runs(runs)

    def _check_runs(self, runs: Runs) -> None:
        """Check that the kubelet gives the same logs as before.

        :param runs: those of the container before.
        :raises _Overtaken: it does not.
        """
        if self._pod.runs(self._container)[:2] != runs[:2]:
            raise _Overtaken

    async def _look(self) -> bool:
        """Read the pod as it is now.

        :return: False where another pod has its name.
        """
        metadata = self._pod.manifest["metadata"]
        found = await self._client.get_or_none(PODS, metadata["namespace"], metadata["name"])
        self._is_in_doubt = False
        is_other = found is not None and found["metadata"]["uid"] != self._pod.uid
        if found is None or is_other:
            self._pod.miss()
        else:
            self._pod.update(found)
            self._is_last_look_done = self._job_ended.is_set()
        return not is_other

    def _is_hopeless(self, status: int | None) -> bool:
        """Whether another attempt cannot help.

        :param status: of the answer; None where there was none.
        """
        # Credentials that are refused (401) may be renewed.
        if status is None or status >= 500 or status in (400, 401, 404, 408, 429):
            self._refused_since = None
            # The container has ended, and the kubelet has no log of it.
            return status == 400 and self._pod.ended
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        return now - self._refused_since >= read_deadline.REFUSED_SECONDS

    async def _pause(self, changed: asyncio.Event, *, waiting: bool = False) -> None:
        """Wait for the pod to change, or for a while.

        :param waiting: whether only a change of the pod can help.
        """
        self._backoff.failed(self._last_error)
        pause = asyncio.sleep(_WAITING) if waiting else self._backoff.pause(self._last_error)
        waits = [asyncio.ensure_future(each) for each in (changed.wait(), pause)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


def _is_older(manifest: Manifest, known: Manifest) -> bool:
    """Whether a version of an object comes before another one.

    Versions of one resource are numbers that clients may compare (https://www.kubernetes.dev/resources/keps/5504). If
    one of the two is not a number, the order is unknown, and the answer is no.
    """
    versions = [str(each["metadata"]["resourceVersion"]) for each in (manifest, known)]
    return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])


def _has_ended(state: Mapping[str, Any]) -> bool:
    """Whether a container's state is the end of a run. An end without a container ID means that the start failed."""
    return bool((state.get("terminated") or {}).get("containerID"))


def _reads(block: bytes, mask: Mask) -> Callable[[bytes], str]:
    """The function that converts the lines of a block to text. Most blocks are plain ASCII, which is quick to check."""
    if mask.concerns(block):
        return lambda line: shorten(mask.text(plain(line)))
    if block.translate(None, _PRINTABLE) or len(block) > LONGEST_LINE:
        return lambda line: shorten(plain(line))
    return _decode


def _decode(line: bytes) -> str:
    return line.decode("ascii")
