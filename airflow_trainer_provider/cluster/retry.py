"""Asks again while the API server is in trouble."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_delay

from airflow_trainer_provider.errors import ApiError

log = logging.getLogger(__name__)

#: Seconds between two attempts.
_SHORTEST = 0.5
_LONGEST = 15.0
#: The longest wait that the API server can ask for, in seconds.
_LONGEST_ASKED = 60.0
_T = TypeVar("_T")


class Outage:
    """Repeats calls that fail for a while, and tells once when the trouble begins and once when it ends.

    :param name: of what is asked, for the log.
    :param budget: seconds for which one call is repeated.
    """

    def __init__(self, name: str, budget: float) -> None:
        self._name = name
        self._budget = budget
        self._since: float | None = None
        #: How many calls are being repeated.
        self._repeated = 0

    async def overcome(self, call: Callable[[], Awaitable[_T]], may_repeat: Callable[[ApiError], bool]) -> _T:
        """Make a call until it succeeds.

        :param call: makes one attempt.
        :param may_repeat: tells of an error whether another attempt is allowed, and can help.
        :raises ApiError: the last one, when the budget is spent or another attempt is not allowed.
        """
        repeated = False

        def note(state: RetryCallState) -> None:
            nonlocal repeated
            if not repeated:
                repeated = True
                self._repeated += 1
                self._begin(_error_of(state))

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ApiError) and may_repeat(error)),
            wait=_pause,
            stop=stop_after_delay(self._budget),
            before_sleep=note,
            reraise=True,
        )
        answered = False
        try:
            result: _T = await retrying(call)
            answered = True
        except ApiError as error:
            answered = error.status is not None and not may_repeat(error)
            raise
        finally:
            self._repeated -= repeated
            if answered and self._repeated == 0:
                self._end()
        return result

    def _begin(self, error: ApiError | None) -> None:
        if self._since is None:
            self._since = time.monotonic()
            log.warning("%s is in trouble; asking again for up to %.0f s: %s", self._name, self._budget, error)

    def _end(self) -> None:
        if self._since is not None:
            log.info("%s answers again after %.0f s.", self._name, time.monotonic() - self._since)
            self._since = None


def _pause(state: RetryCallState) -> float:
    # Jitter: what fails together does not come back together.
    pause = min(_LONGEST, _SHORTEST * 2.0 ** (state.attempt_number - 1)) * random.uniform(0.5, 1)
    error = _error_of(state)
    asked = error.retry_after if error is not None and error.retry_after is not None else 0
    return max(pause, min(asked, _LONGEST_ASKED))


def _error_of(state: RetryCallState) -> ApiError | None:
    error = state.outcome.exception() if state.outcome is not None else None
    return error if isinstance(error, ApiError) else None
