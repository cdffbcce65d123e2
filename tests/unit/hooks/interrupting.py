"""Interrupts a call between two lines, as the alarm of Airflow's own time-out does, also within a library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """What a signal handler raises."""


class _Lines:
    """Raises at a line of what runs."""

    def __init__(self, number: int) -> None:
        self.left = number

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        # What is raised while an object is collected is only reported.
        if any(name in frame.f_code.co_filename for name in ("weakref", "traceback")):
            return None
        self.left -= 1
        if self.left == 0:
            raise Interrupted
        return self.trace


def interrupted_at_each_line(call: Callable[[], object]) -> Iterator[bool]:
    """Call a function again and again, interrupted one line later each time, until it is over before that.

    :param call: the function.
    :return: for each time, whether it was interrupted.
    """
    number, before = 0, sys.gettrace()
    while True:
        number += 1
        lines, interrupted = _Lines(number), False
        sys.settrace(lines.trace)
        try:
            call()
        except Interrupted:
            interrupted = True
        finally:
            sys.settrace(before)
        yield interrupted
        if lines.left > 0:
            return
