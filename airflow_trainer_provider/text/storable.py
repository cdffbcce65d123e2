"""Makes values that every database and serializer of Airflow can store.

PostgreSQL stores no NUL character, and no encoding has lone surrogates. Airflow's serializers reserve some keys, and do
not allow as many levels of nesting as JSON does.
"""

from __future__ import annotations

import math
import re
from typing import Any

from airflow_trainer_provider.text.numbers import json_number

#: How many levels of lists and mappings a value may have, alone and together with the value that it is a part of.
DEEPEST = 50
_DEEPEST_WHOLE = 60
#: Keys by which Airflow's serializers (``airflow.sdk.serde``, ``BaseSerialization``) recognize what they have encoded.
RESERVED_KEYS = frozenset({"__classname__", "__data__", "__id__", "__type", "__var", "__version__"})
#: The smallest and the largest integer of MessagePack, in which Airflow's processes exchange values.
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def storable_text(text: str) -> str:
    """A text without the characters that are not stored, each of which is replaced by U+FFFD.

    :param text: any text.
    """
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def storable(value: Any, depth: int = 0) -> Any:
    """A copy of a value that can be stored as it is.

    Parts that cannot be stored are replaced: characters by U+FFFD, numbers that JSON or MessagePack cannot represent
    and objects that are no JSON values by their text, reserved keys by other keys, and parts that are nested too deep
    by a text that says so.

    :param value: JSON values, or any others.
    :param depth: of the value within the whole.
    """
    if not isinstance(value, (dict, list, tuple)):
        return _storable_scalar(value)
    if depth >= _DEEPEST_WHOLE:
        return "... (too deep)"
    if isinstance(value, dict):
        return {_storable_key(str(key)): storable(each, depth + 1) for key, each in value.items()}
    return [storable(each, depth + 1) for each in value]


def _storable_scalar(value: Any) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if value is None or (isinstance(value, int) and _SMALLEST <= value <= _LARGEST):
        return value
    return storable_text(str(value))


def why_not_storable(value: Any) -> str | None:
    """Why a value cannot be stored as it is, as words to put after its name; None where it can.

    :param value: JSON values.
    """
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        problem = _problem_of(each, depth)
        if problem:
            return problem
        if isinstance(each, dict):
            waiting += [(key, depth + 1) for key in each] + [(part, depth + 1) for part in each.values()]
        elif isinstance(each, list):
            waiting += [(part, depth + 1) for part in each]
    return None


def _problem_of(value: Any, depth: int) -> str | None:
    """What is wrong with a value itself, and not with its parts."""
    if isinstance(value, str) and (found := _UNSTORABLE.search(value)):
        return f"has the character U+{ord(found[0]):04X}, which databases do not store"
    if isinstance(value, float) and not math.isfinite(value):
        return f"has the number {json_number(value)}, which JSON does not have"
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return "has a whole number of more than 64 bits"
    if isinstance(value, (dict, list)) and depth >= DEEPEST:
        return f"has more than {DEEPEST} levels of lists and mappings"
    reserved = sorted(RESERVED_KEYS & value.keys()) if isinstance(value, dict) else ()
    return f"has the key {reserved[0]!r}, which Airflow's serializers keep for themselves" if reserved else None


def _storable_key(key: str) -> str:
    return f"{key}_" if key in RESERVED_KEYS else storable_text(key)
