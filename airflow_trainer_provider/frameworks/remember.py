"""Caches the last result of a function that is called for each replica of a job in turn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def remember_last(function: Callable[P, T]) -> Callable[P, T]:
    """Cache a function's last result for identical objects as arguments.

    So a list of all replicas is created once per job, and not once per replica.

    :param function: a pure function with positional arguments.
    """
    last: tuple[tuple[object, ...], T] | None = None

    @functools.wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal last
        # Read once, because another thread may replace it at any time.
        known = last
        if known is None or len(known[0]) != len(args) or any(a is not b for a, b in zip(known[0], args, strict=True)):
            known = (args, function(*args, **kwargs))
            last = known
        return known[1]

    return remembered
