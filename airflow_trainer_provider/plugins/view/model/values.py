"""Reads plain values that may be anything, and writes them for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_trainer_provider.text.numbers import json_number

_MINUTE = 60
_HOUR = 3600
_DAY = 86400


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping as it is; an empty one for anything else.

    :param value: of an XCom, where any task may write.
    """
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list; none for anything else.

    :param value: of an XCom.
    """
    return [each for each in listing(value) if isinstance(each, Mapping)]


def listing(value: Any) -> Sequence[Any]:
    """A list as it is; an empty one for anything else.

    :param value: of an XCom.
    """
    return value if isinstance(value, (list, tuple)) else []


def text(value: Any) -> str | None:
    """A text that is not empty; None for anything else.

    :param value: of an XCom.
    """
    return value if isinstance(value, str) and value else None


def texts(value: Any) -> list[str]:
    """The texts in a list.

    :param value: of an XCom.
    """
    return [each for each in listing(value) if isinstance(each, str)]


def number(value: Any) -> float | None:
    """A number that is finite; None for anything else.

    :param value: of an XCom.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        # A whole number that no float can hold.
        return None


def finite(value: Any) -> Any:
    """A value with texts in place of the numbers that JSON has none for.

    :param value: JSON values, and such numbers.
    """
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


def whole(value: Any) -> int | None:
    """A whole number; None for anything else.

    :param value: of an XCom.
    """
    found = number(value)
    return None if found is None else int(found)


def moment(value: Any) -> datetime | None:
    """A time in ISO 8601, in UTC; None for anything else.

    :param value: of an XCom, or a time already.
    """
    if isinstance(value, str):
        try:
            # Python 3.10 does not read the letter.
            value = datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith("Z") else value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    try:
        return value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)
    except OverflowError:
        # In the first or the last hours of the calendar.
        return None


def later(start: datetime, seconds: float) -> datetime | None:
    """A time after another; None after the end of the calendar.

    :param start: the first.
    :param seconds: how much later.
    """
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return None


def iso(value: Any) -> str | None:
    """A time as the views have it: in UTC, to the second.

    :param value: see :func:`moment`.
    """
    found = moment(value)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ") if found else None


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from one time to another, 0 at least; None where one is unknown.

    :param start: the first.
    :param end: the second.
    """
    return max(0.0, (end - start).total_seconds()) if start and end else None


def duration(seconds: float) -> str:
    """A duration in two units: ``2 h 12 min``.

    :param seconds: how long.
    """
    whole_seconds = round(seconds)
    if whole_seconds < _MINUTE:
        return f"{whole_seconds} s"
    if whole_seconds < 10 * _MINUTE:
        return _two(whole_seconds, _MINUTE, "min", 1, "s")
    whole_minutes = round(seconds / _MINUTE) * _MINUTE
    if whole_minutes < _HOUR:
        return f"{whole_minutes // _MINUTE} min"
    if whole_minutes < _DAY:
        return _two(whole_minutes, _HOUR, "h", _MINUTE, "min")
    return _two(round(seconds / _HOUR) * _HOUR, _DAY, "d", _HOUR, "h")


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large} {large_name}" + (f" {rest} {small_name}" if rest else "")


def count(amount: int, noun: str) -> str:
    """``1 replica``, ``2 replicas``.

    :param amount: how many.
    :param noun: of what.
    """
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """``a, b and c``, or ``a, b and 4 others``.

    :param names: at least one.
    :param most: how many are named.
    """
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} others"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def shortened(line: str, most: int) -> str:
    """A line that is cut where it is too long.

    :param line: of text; line breaks become spaces.
    :param most: characters.
    """
    line = " ".join(line.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
