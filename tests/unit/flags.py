"""Tables whose rows are chosen by flags: every combination of these, for their tests."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any

import pytest


def combined(needed: Sequence[Flag], beside: Sequence[Flag], kind: type[Flag]) -> list[Any]:
    """What fits a row: the flags that it needs, with any of those that may hold beside them.

    :param needed: by the row.
    :param beside: those that change nothing.
    :param kind: of the flags.
    """
    subsets = [each for size in range(len(beside) + 1) for each in combinations(beside, size)]
    return [reduce(or_, [*needed, *more], kind(0)) for more in subsets]


def check_rows(rows: Sequence[tuple[Sequence[Flag], Sequence[Flag], Any]], kind: type[Flag]) -> None:
    """Fail unless each combination of flags fits exactly one row.

    :param rows: each with what it needs, and what may hold beside that.
    :param kind: of the flags.
    """
    found = [each for needed, beside, _ in rows for each in combined(needed, beside, kind)]
    if not len(found) == len(set(found)) == 2 ** len(kind):
        pytest.fail(f"{len(found)} combinations, {len(set(found))} of them different, of {2 ** len(kind)}")
