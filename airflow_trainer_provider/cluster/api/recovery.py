"""Pauses between attempts, and detects when the API server answers again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from airflow_trainer_provider.cluster.answers import NO_ANSWER, NOT_SENT, SILENT, is_refusal
from airflow_trainer_provider.errors import ApiError

#: The pause between two probes, in seconds.
PROBE_SECONDS = 1.0
#: The pause while the API server answers that it is not ready yet, for the first ``_STARTING`` seconds of that.
STARTING_PROBE_SECONDS = 0.25
#: Callers that wait for the API server resume within so many seconds, so that they do not all do so at the same moment.
SPREAD = 0.2
#: The longest wait that the API server can ask for with ``Retry-After``, in seconds.
LONGEST_ASKED = 60.0
#: How long probing continues after the last pause, in seconds: an attempt may take as long as a call may.
_PROBE_ON = 60.0
#: Reasons of errors while an API server is down.
_NO_ANSWER = (NO_ANSWER, NOT_SENT, SILENT)
#: A recovery without a failed probe before it counts at most once in so many seconds.
_OWN_FAILURE_SECONDS = 30.0
#: What an API server answers while it starts: until it serves its paths, and until it has loaded the objects of a
#: resource.
_WHILE_IT_STARTS = (503, 429)
_TOO_MANY = 429
#: How long a starting API server may forbid even the probe whether it is ready, and how long it is probed more often;
#: seconds.
_STARTING = 10.0
_OK = 200
_FORBIDDEN = 403
_SERVER_ERROR = 500


class Recovery:
    """Probes the API server for all callers that wait for it: once a second while it does not answer, and more often in
    the few seconds from its first answer until it is ready.

    :param probe: asks the API server whether it is ready; returns the HTTP status, None without an answer. It takes no
        longer than about :data:`PROBE_SECONDS`.
    """

    def __init__(self, probe: Callable[[], Awaitable[int | None]]) -> None:
        self._probe = probe
        self._probing: asyncio.Task[None] | None = None
        self._probe_until = 0.0
        self._was_silent = False
        self._recovered_at = -_OWN_FAILURE_SECONDS
        self._waiting: set[asyncio.Future[None]] = set()
        self._hidden_since: float | None = None
        #: How often the API server has recovered.
        self.count = 0

    async def wait(self, seconds: float, error: Exception | None) -> None:
        """Wait before the next attempt; after an error that an outage causes, only until the API server has recovered.

        :param seconds: how long at most.
        :param error: of the last attempt.
        """
        if not isinstance(error, ApiError) or not (_ends_with_recovery(error) or self._is_early(error)):
            await asyncio.sleep(seconds)
            return
        if not is_refusal(error) and not self._is_early(error):
            self._was_silent = self._was_silent or error.status is None
            self._probe_until = time.monotonic() + seconds + _PROBE_ON
            if self._probing is None:
                self._probing = asyncio.create_task(self._probe_until_ready(), name="probe of an API server")
        recovered = asyncio.get_running_loop().create_future()
        self._waiting.add(recovered)
        try:
            done, _ = await asyncio.wait({recovered}, timeout=seconds)
        finally:
            self._waiting.discard(recovered)
        if done:
            await asyncio.sleep(random.uniform(0, SPREAD))

    def recovered(self) -> None:
        """Resume everything that waits for the API server's recovery."""
        self.count += 1
        self._recovered_at = time.monotonic()
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    async def is_starting(self) -> bool:
        """Whether an API server that answers is not ready yet: until it has loaded its roles, it forbids everything."""
        status = await self._probe()
        if status != _FORBIDDEN:
            return status is None or status >= _SERVER_ERROR
        if self._hidden_since is None:
            self._hidden_since = time.monotonic()
        return time.monotonic() - self._hidden_since < _STARTING

    def close(self) -> None:
        """Stop probing."""
        if self._probing is not None:
            self._probing.cancel()

    def _is_early(self, error: ApiError) -> bool:
        """Whether an API server that is not ready asks for a later attempt (429): it may be ready earlier."""
        return error.status == _TOO_MANY and self._probing is not None

    async def _probe_until_ready(self) -> None:
        due, failed, last, starting = time.monotonic(), False, None, 0
        try:
            while time.monotonic() < self._probe_until:
                due += _pause_after(starting)
                await asyncio.sleep(due - time.monotonic())
                status = await self._probe()
                starting = starting + 1 if (status or 0) >= _SERVER_ERROR else 0
                if status is None or starting:
                    failed = True
                # A refusal counts as an answer once it is repeated: the account may not read the path, or a gateway
                # does not know it. A starting API server refuses only for a moment.
                elif status in (_OK, last):
                    self._is_ready(status, failed)
                    return
                last = status
        finally:
            self._probing, self._was_silent = None, False

    def _is_ready(self, status: int, failed: bool) -> None:
        if status == _OK:
            self._hidden_since = None
        # Connections that keep breaking while the API server is ready break for another reason than an outage.
        if failed or (self._was_silent and time.monotonic() - self._recovered_at > _OWN_FAILURE_SECONDS):
            self.recovered()


def _pause_after(starting: int) -> float:
    """Seconds until the next probe.

    :param starting: how many probes in a row were answered that the API server is not ready.
    """
    return STARTING_PROBE_SECONDS if 0 < starting <= _STARTING / STARTING_PROBE_SECONDS else PROBE_SECONDS


class Backoff:
    """Pauses between the attempts of one caller: longer ones after each failure, short ones after a recovery.

    :param recovery: of the connection.
    :param first: the first pause, in seconds.
    :param most: the longest pause, in seconds.
    :param starting: attempts that an API server may refuse while it starts, before pauses get longer. For a small
        number of callers only: the API server has to answer each of them.
    """

    def __init__(self, recovery: Recovery, first: float, most: float, starting: int = 0) -> None:
        self._recovery = recovery
        self._first = first
        self._most = most
        self._starting = starting
        self._refused = 0
        self._count = recovery.count
        self._is_outage = False
        #: Whether the last attempt got no answer, and the API server recovered while it was under way.
        self._is_overtaken = False
        #: Attempts that have failed since the last success or recovery.
        self.failures = 0

    def failed(self, error: Exception | None) -> None:
        """Note that an attempt has failed.

        :param error: of the attempt. An error that no outage causes ends an outage: the API server answers again, e.g.
            that the storage of a custom resource is not ready yet.
        """
        was_outage, self._is_outage = self._is_outage, isinstance(error, ApiError) and _ends_with_recovery(error)
        has_recovered = self._has_recovered()
        self._is_overtaken = has_recovered and isinstance(error, ApiError) and error.status is None
        if has_recovered or (was_outage and not self._is_outage):
            self.reset()
        self.failures += 1
        is_starting = isinstance(error, ApiError) and error.status in _WHILE_IT_STARTS
        self._refused = self._refused + 1 if is_starting else 0

    def reset(self) -> None:
        """Note that an attempt has succeeded."""
        self.failures = self._refused = 0

    async def pause(self, error: Exception | None) -> None:
        """Wait before the next attempt: at least as long as the API server has asked for, within bounds.

        :param error: of the last attempt.
        """
        growing = 1 if 0 < self._refused <= self._starting else self.failures
        # Jitter: callers that fail at the same moment do not return at the same moment.
        pause = min(self._most, self._first * 2 ** min(max(growing - 1, 0), 16)) * random.uniform(0.5, 1.0)
        asked = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        if self._is_overtaken:
            # The attempt may have been sent before the recovery, so there is no recovery left to wait for.
            await asyncio.sleep(random.uniform(0, SPREAD))
        else:
            await self._recovery.wait(max(pause, min(asked, LONGEST_ASKED)), error)
        if self._has_recovered():
            self.reset()

    def _has_recovered(self) -> bool:
        """Whether the API server has recovered since the last call."""
        count, self._count = self._count, self._recovery.count
        return count != self._count


def _ends_with_recovery(error: ApiError) -> bool:
    return error.reason in _NO_ANSWER or is_refusal(error) or (error.status or 0) >= _SERVER_ERROR
