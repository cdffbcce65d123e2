"""Retries requests during an outage of the API server."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from airflow_trainer_provider.cluster.api.recovery import Backoff, Recovery
from airflow_trainer_provider.errors import ApiError

log = logging.getLogger(__name__)

#: The shortest and the longest pause between two attempts, in seconds.
_SHORTEST = 0.5
_LONGEST = 15.0
_T = TypeVar("_T")


class Retrier:
    """Repeats calls that fail for a while, and logs once when an outage begins and once when it ends.

    :param name: of the API, for the log.
    :param budget: seconds for which one call is repeated.
    :param recovery: of the connection.
    """

    def __init__(self, name: str, budget: float, recovery: Recovery) -> None:
        self._name = name
        self._budget = budget
        self._recovery = recovery
        self._since: float | None = None
        #: How many calls are being repeated.
        self._repeated = 0

    async def retry(self, call: Callable[[], Awaitable[_T]], may_repeat: Callable[[ApiError], bool]) -> _T:
        """Make a call until it succeeds.

        :param call: makes one attempt.
        :param may_repeat: whether another attempt after an error is allowed, and can help.
        :raises ApiError: the last error, when the budget is spent or another attempt is not allowed.
        """
        begun, backoff = time.monotonic(), Backoff(self._recovery, _SHORTEST, _LONGEST)
        answered = repeated = False
        try:
            while True:
                try:
                    result = await call()
                    answered = True
                    return result
                except ApiError as error:
                    if not may_repeat(error):
                        answered = error.status is not None
                        raise
                    if time.monotonic() - begun >= self._budget:
                        raise
                    if not repeated:
                        repeated = True
                        self._repeated += 1
                        self._begin(error)
                    backoff.failed(error)
                    await backoff.pause(error)
        finally:
            self._repeated -= repeated
            if answered and self._repeated == 0:
                self._end()

    def _begin(self, error: ApiError) -> None:
        if self._since is None:
            self._since = time.monotonic()
            log.warning("%s does not answer; retrying for up to %.0f s: %s", self._name, self._budget, error)

    def _end(self) -> None:
        if self._since is not None:
            log.info("%s answers again after %.0f s.", self._name, time.monotonic() - self._since)
            self._since = None
