"""Reads values of unknown types from XCom, and formats values for users."""

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
    """The value if it is a mapping; else an empty mapping.

    :param value: a value from XCom, where any task may write.
    """
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list; an empty list for any other value.

    :param value: a value from XCom.
    """
    return [each for each in listing(value) if isinstance(each, Mapping)]


def listing(value: Any) -> Sequence[Any]:
    """The value if it is a list; else an empty list.

    :param value: a value from XCom.
    """
    return value if isinstance(value, (list, tuple)) else []


def text(value: Any) -> str | None:
    """The value if it is text and not empty; else None.

    :param value: a value from XCom.
    """
    return value if isinstance(value, str) and value else None


def texts(value: Any) -> list[str]:
    """The texts in a list.

    :param value: a value from XCom.
    """
    return [each for each in listing(value) if isinstance(each, str)]


def number(value: Any) -> float | None:
    """The value if it is a finite number; else None.

    :param value: a value from XCom.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        # An integer that is too large for a float.
        return None


def finite(value: Any) -> Any:
    """A copy of a value, with numbers that JSON does not support, such as NaN, as text.

    :param value: JSON values, possibly with such numbers.
    """
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


def whole(value: Any) -> int | None:
    """The value as a whole number if it is a finite number; else None.

    :param value: a value from XCom.
    """
    found = number(value)
    return None if found is None else int(found)


def moment(value: Any) -> datetime | None:
    """The time in UTC; None for any value that is not a time.

    :param value: a value from XCom, in ISO 8601, or a datetime.
    """
    if isinstance(value, str):
        try:
            # Python 3.10 does not parse the suffix Z.
            value = datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith("Z") else value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    try:
        return value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)
    except OverflowError:
        # A time in the first or the last hours that datetime supports.
        return None


def later(start: datetime, seconds: float) -> datetime | None:
    """The time a number of seconds after another time; None if it is beyond what datetime supports.

    :param start: the earlier time.
    :param seconds: the difference in seconds.
    """
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return None


def iso(value: Any) -> str | None:
    """A time in the format of the views: ISO 8601 in UTC, in whole seconds.

    :param value: see :func:`moment`.
    """
    found = moment(value)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ") if found else None


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from one time to another, at least 0; None if one of them is unknown.

    :param start: the first time.
    :param end: the second time.
    """
    return max(0.0, (end - start).total_seconds()) if start and end else None


def duration(seconds: float) -> str:
    """A duration in two units: ``2 h 12 min``.

    :param seconds: the duration in seconds.
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
    """A number with its noun: ``1 replica``, ``2 replicas``.

    :param amount: the number.
    :param noun: the noun in the singular.
    """
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names as a list: ``a, b and c``, or ``a, b and 4 others``.

    :param names: the names; at least one.
    :param most: the maximum number of items in the text.
    """
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} others"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def shortened(line: str, most: int) -> str:
    """A text as one line, truncated if it is too long.

    :param line: the text; line breaks become spaces.
    :param most: the maximum number of characters.
    """
    line = " ".join(line.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
