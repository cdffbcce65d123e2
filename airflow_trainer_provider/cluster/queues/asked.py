"""A question that is put to the API server periodically, and less often after failures."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from airflow_trainer_provider.errors import ApiError, BackendUnavailable

#: The pause after a refusal: only a change of permissions, or of what is installed, makes another answer; seconds.
REFUSED = 300.0
#: The pause where an object was not found: it may be created soon; seconds.
NOT_FOUND = 60.0
#: The pause after the first failure, which doubles with each further one, and the longest pause; seconds.
_FAILED_FIRST = 5.0
_FAILED_MOST = 300.0
#: Jitter: pauses are longer or shorter by up to this share, so that processes do not ask at the same moment.
_SPREAD = 0.1
_FORBIDDEN = 403
_T = TypeVar("_T")


class Asked(Generic[_T]):
    """One question, and the last answer to it.

    :param ask: asks it.
    :param every: seconds from one answer to the next question.
    """

    def __init__(self, ask: Callable[[], Awaitable[_T]], every: float) -> None:
        self._ask = ask
        #: May be changed at any time.
        self.every = every
        self._asked_at = -math.inf
        self._spread = 1.0
        # Seconds to the next question after a failure.
        self._pause: float | None = None
        self._failures = 0
        #: The last answer; None where there is none, or it is not valid any more.
        self.answer: _T | None = None
        #: Why there is no answer.
        self.error: ApiError | None = None

    @property
    def due_in(self) -> float:
        """Seconds until the question is asked again."""
        pause = self.every if self._pause is None else self._pause
        return max(0.0, self._asked_at + self._spread * pause - time.monotonic())

    async def refresh(self) -> None:
        """Ask the question if it is due. No error is raised."""
        if self.due_in:
            return
        try:
            answer = await self._ask()
        except (ApiError, BackendUnavailable) as error:
            self._note(error if isinstance(error, ApiError) else ApiError(str(error)))
        else:
            self.answer, self.error, self._pause, self._failures = answer, None, None, 0
        self._asked_at = time.monotonic()
        self._spread = random.uniform(1 - _SPREAD, 1 + _SPREAD)

    def _note(self, error: ApiError) -> None:
        self._failures += 1
        refused = error.status == _FORBIDDEN
        # After a single failure the previous answer is kept.
        if refused or error.is_not_found or self._failures > 1:
            self.answer, self.error = None, error
        if refused:
            self._pause = REFUSED
        elif error.is_not_found:
            self._pause = NOT_FOUND
        else:
            doubled = _FAILED_FIRST * 2 ** min(self._failures - 1, 16)
            self._pause = min(_FAILED_MOST, max(doubled, error.retry_after or 0.0))
