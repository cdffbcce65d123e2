"""Follows the log of one container of one pod, over its restarts and over broken connections."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from airflow_trainer_provider.cluster.log_place import Seen, split_time
from airflow_trainer_provider.cluster.log_shown import LONGEST_LINE, shorten
from airflow_trainer_provider.cluster.log_streams import LogStreams
from airflow_trainer_provider.cluster.pace import Pace
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.job.log_text import plain
from airflow_trainer_provider.kinds.base import PODS, Manifest

if TYPE_CHECKING:
    from airflow_trainer_provider.cluster.client import Client

#: Between two attempts, at first and at most; seconds.
BACKOFF_FIRST = 0.5
BACKOFF_MOST = 30.0
#: How long the API server may refuse to give a log before it is given up; seconds.
REFUSED = 60.0
#: A container that has not started is looked at again when its pod changes, and at the latest after so many seconds.
_WAITING = 60.0
#: How long a log is followed at least where others wait for the place; and where lines come, without a pause of some
#: length. Seconds.
_TURN = 5.0
_LONG_TURN = 30.0
_QUIET = 0.5
# A connection that lived so long was a good one; seconds.
_GOOD = 10.0
# The log of an earlier run is read from a little before what was told, in seconds: a run that crashed at once may have
# been overtaken by the next.
_OVERLAP = 5


class Pod:
    """A pod as it was last seen, for those who read its containers.

    :param manifest: the pod.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        #: Whether it has been deleted: its logs went with it.
        self.gone = False
        #: Set at the next change, and then replaced: take it before looking.
        self.changed = asyncio.Event()

    @property
    def uid(self) -> str:
        """Its uid. One that is made again under its name is another."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def version(self) -> str:
        """Its resource version."""
        return str(self.manifest["metadata"]["resourceVersion"])

    @property
    def ended(self) -> bool:
        """Whether no container of it will ever start again."""
        return self.gone or (self.manifest.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    def update(self, manifest: Manifest | None = None, *, gone: bool = False) -> None:
        """Take a newer version of it, and wake who waits."""
        self.manifest = manifest or self.manifest
        self.gone = self.gone or gone
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def runs(self, container: str) -> tuple[int, bool]:
        """How often a container was started, and whether it runs now."""
        found = self.manifest.get("status") or {}
        statuses = [*(found.get("initContainerStatuses") or ()), *(found.get("containerStatuses") or ())]
        status = next((each for each in statuses if each["name"] == container), None)
        if status is None:
            return 0, False
        state, restarts = status.get("state") or {}, int(status.get("restartCount") or 0)
        ends = (state.get("terminated") or {}, (status.get("lastState") or {}).get("terminated") or {})
        # An end without a container is one that never began.
        running = state.get("running") is not None
        started = running or any(end.get("containerID") for end in ends)
        return (restarts + 1 if started else restarts), running


class ContainerLog:
    """Tells each line of a container once.

    :param client: of the cluster. Each container that runs holds one of its connections.
    :param pod: the container's pod, which somebody keeps up to date.
    :param container: its name.
    :param seen: what was read of it before.
    :param tell: takes some lines, each with its time.
    :param note: takes what there is to say about the log itself.
    :param ended: set when the job has ended, so that nothing will be written any more.
    """

    def __init__(
        self,
        client: Client,
        pod: Pod,
        container: str,
        seen: Seen,
        tell: Callable[[list[tuple[int, str]]], Awaitable[None]],
        note: Callable[[str], Awaitable[None]],
        ended: asyncio.Event,
    ) -> None:
        self._client = client
        self._pod = pod
        self._container = container
        self._seen = seen
        self._tell = tell
        self._note = note
        self._job_ended = ended
        # How many of the container's runs have been read to their end.
        self._read_runs = 0
        # Whether that is so: who read before may have read more.
        self._knows_runs = seen.since() is None
        # When a connection last gave all that there was.
        self._whole_at: float | None = None
        self._failures = 0
        self._refused_since: float | None = None
        self._last_error: ApiError | BackendUnavailable | None = None
        #: When it last got anywhere, by the monotonic clock.
        self.active_at = time.monotonic()
        #: When it last got a place to read from that it had to wait for, by the same clock.
        self.admitted_at = 0.0
        #: Whether it waits for such a place, or until its lines are taken: then it is not the log that takes long.
        self.is_held_up = False
        self._streams = LogStreams.here()
        self._pace = Pace.here()
        self._reading: asyncio.Task[None] | None = None
        self._is_leaving = False

    async def run(self) -> None:
        """Read until nothing can follow."""
        again = False
        while True:
            changed = self._pod.changed
            runs, running = self._pod.runs(self._container)
            if runs <= self._read_runs:
                if self._pod.ended or self._job_ended.is_set():
                    return
                await changed.wait()
                continue
            if self._pod.gone:
                await self.give_up("its pod is gone")
                return
            before = runs - 1 > self._read_runs
            try:
                if again:
                    await self._look()
                    again = False
                    continue
                await self._skip_to(runs - 2)
                if not await self._take_turn(previous=before, follow=running and not before):
                    continue
            except (ApiError, BackendUnavailable) as error:
                status = error.status if isinstance(error, ApiError) else None
                if before and status == 400:
                    await self._skip_to(runs - 1)
                    continue
                again = True
                self._last_error = error
                if self._is_hopeless(status):
                    await self.give_up(str(error))
                    return
                await self._pause(changed, waiting=status == 400)
                continue
            if before:
                self._read_runs = runs - 1
            elif not running:
                self._read_runs = runs
            else:
                # The pod's end is not known yet, or the kubelet changed to a new file: there may be more.
                again = True
                await self._pause(changed)

    async def give_up(self, why: str) -> None:
        """Say what is not told of the log, if anything.

        :param why: what keeps it from being read.
        """
        runs = self._pod.runs(self._container)[0]
        # A pod may go right after its container, before its log can be asked for once more.
        whole = self._whole_at is not None and time.monotonic() - self._whole_at < _GOOD
        if runs <= self._read_runs or (whole and runs == self._read_runs + 1):
            return
        what = "the log" if self._seen.since() is None else "the rest of the log"
        error = f" ({self._last_error})" if self._last_error and str(self._last_error) != why else ""
        await self._note(f"{what} of {self} is missing here: {why}{error}")

    def __str__(self) -> str:
        return f"container {self._container} in pod {self._pod.manifest['metadata']['name']}"

    async def _skip_to(self, run: int) -> None:
        """Go on behind a run whose log is not there any more.

        :param run: the last one of those; it may have been read.
        """
        if run <= self._read_runs:
            return
        if self._knows_runs:
            which = f"run {run}" if run == self._read_runs + 1 else f"runs {self._read_runs + 1} to {run}"
            await self._note(f"{self} was started again; lines of its {which} are lost, as Kubernetes keeps two logs")
        self._read_runs = run
        self._knows_runs = True

    async def _take_turn(self, *, previous: bool, follow: bool) -> bool:
        """Read until the log ends, or another reader wants the place.

        :param previous: of the run before the last one.
        :param follow: until the container ends. What is followed comes line by line, which costs the API server more.
        :return: whether the log has ended.
        """
        self._is_leaving = False
        self.is_held_up = True
        async with self._streams.place(self._leave) as had_to_wait:
            self.is_held_up = False
            if had_to_wait:
                self.active_at = self.admitted_at = time.monotonic()
            # A task of its own can be told to end from the end of itself.
            self._reading = asyncio.create_task(self._read(previous=previous, follow=follow))
            try:
                await asyncio.wait({self._reading})
            finally:
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)
            if not self._reading.cancelled():
                self._reading.result()
        return not self._is_leaving

    def _leave(self, had: float) -> bool:
        """Let another reader have the place, unless this one needs it more.

        :param had: how long it has been had, in seconds.
        """
        is_busy = self.is_held_up or time.monotonic() - self.active_at < _QUIET
        if self._job_ended.is_set() or had < (_LONG_TURN if is_busy else _TURN):
            return False
        self._is_leaving = True
        if self._reading and not self.is_held_up:
            self._reading.cancel()
        return True

    async def _read(self, *, previous: bool, follow: bool) -> None:
        """One connection's worth of lines.

        :param previous: of the run before the last one.
        :param follow: until the container ends.
        """
        metadata = self._pod.manifest["metadata"]
        since, started = self._seen.since(_OVERLAP if previous else 0), time.monotonic()
        self._seen.resume()
        stream = self._client.log_blocks(
            metadata["namespace"],
            metadata["name"],
            self._container,
            follow=follow,
            since_time=since,
            previous=previous,
        )
        last = None
        try:
            async with aclosing(stream):
                async for block in stream:
                    await self._pace.turn()
                    lines = [split_time(line) for line in block.split(b"\n")]
                    if lines[0][0] is None and last is None and since is None:
                        # The kubelet has begun its answer, and finds no log.
                        raise ApiError(lines[0][1].decode("utf-8", "replace"))
                    old = self._seen.new_of([at for at, _ in lines if at is not None])
                    read, new = _reads(block), []
                    for at, text in lines:
                        if at is not None:
                            if old:
                                old -= 1
                                continue
                            last = at
                        # Without a time it belongs to the line before, whose beginning may have been told.
                        if last is not None:
                            new.append((last, read(text)))
                    if new:
                        self._whole_at = None
                        self.is_held_up = True
                        await self._tell(new)
                        self.is_held_up = False
                    self.active_at = time.monotonic()
                    if self._is_leaving:
                        return
        finally:
            if last is not None or time.monotonic() - started > _GOOD:
                self._failures = 0
        self._whole_at = time.monotonic()
        self._refused_since = self._last_error = None

    async def _look(self) -> None:
        """See whether it is still this pod that has the name."""
        metadata = self._pod.manifest["metadata"]
        try:
            found = await self._client.get(PODS, metadata["namespace"], metadata["name"])
        except ApiError as error:
            if error.status != 404:
                raise
            self._pod.update(gone=True)
            return
        if found["metadata"]["uid"] != self._pod.uid:
            self._pod.update(gone=True)
        elif not self._pod.gone:
            self._pod.update(found)

    def _is_hopeless(self, status: int | None) -> bool:
        """Whether trying again cannot help.

        :param status: of the answer; None where there was none.
        """
        if status is None or status >= 500 or status in (400, 404, 408, 429):
            self._refused_since = None
            # The container has ended, and the kubelet has nothing of it.
            return status == 400 and self._pod.ended
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        return now - self._refused_since >= REFUSED

    async def _pause(self, changed: asyncio.Event, *, waiting: bool = False) -> None:
        """Wait for the pod to change, or for a while.

        :param waiting: only the pod's change can help.
        """
        self._failures += 1
        backoff = min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** min(self._failures - 1, 16)) * random.uniform(0.5, 1.0)
        retry_after = getattr(self._last_error, "retry_after", None) or 0.0
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(changed.wait(), _WAITING if waiting else max(backoff, retry_after))


def _reads(block: bytes) -> Callable[[bytes], str]:
    """What makes text of the lines of a block. Most have nothing in them but text, which is seen at once."""
    if b"\x1b" in block or b"\r" in block or len(block) > LONGEST_LINE:
        return lambda line: shorten(plain(line))
    return _decode


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "replace")
