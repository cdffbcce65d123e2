"""Reduces a field to plain JSON values: Jinja, XCom and DAG authors may pass any Python object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.spec.values.base import SpecModel
from airflow_trainer_provider.spec.values.limits import MOST_FIELD_BYTES, MOST_LEVELS, MOST_VALUES

_ALLOWED = "text, numbers, lists and mappings"
#: The maximum size of a number; longer ones have no use in a job.
_MOST_BITS = 4096
_MOST_EXPONENT = 100
#: Longer keys and names are cut in an error.
_LONGEST_KEY = 63
#: A part of a place: a key of a mapping, or a position in a list.
Place = tuple[str | int, ...]


def plain(field: str, value: Any) -> Any:
    """Copy a value into dicts, lists, text, numbers, booleans and None.

    Numbers of other libraries become Python numbers. A ``Decimal`` becomes its text, which every field for a number
    accepts as well.

    :param field: the name of the field, for the error.
    :param value: any object.
    :raises SpecError: the value is too large, is nested too deeply, contains itself, or contains an object that JSON
        does not support. The error names the place, and never shows the value.
    """
    return _Reader().read(value, (field,))


def path(place: Place) -> str:
    """The path of a place, as errors show it, e.g. ``replicas.worker.overrides[0]``.

    :param place: keys and positions, from the outermost to the innermost.
    """
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _is_simple(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part[:_LONGEST_KEY]!r}]"
    return text


def _is_simple(key: str) -> bool:
    return 0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable() and not set(key) & set(" '\"[]")


class _Reader:
    """Reads one field, and counts values and bytes, since a value may contain itself or be endless."""

    def __init__(self) -> None:
        self._values = 0
        self._bytes = 0

    def read(self, value: Any, place: Place) -> Any:
        self._count(1, place)
        if len(place) > MOST_LEVELS:
            allowed = f"at most {MOST_LEVELS} levels of lists and mappings"
            raise _refusal(place[:1], "more levels", allowed, "Flatten it. It may also contain itself.")
        try:
            return self._read(value, place)
        except SpecError:
            raise
        except Exception:
            # Any access to a foreign object may raise any exception.
            raise _foreign(value, place) from None

    def _read(self, value: Any, place: Place) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(str.__str__(value), place)
        if isinstance(value, (dict, Mapping)):
            self._count(len(value), place, only_look=True)
            return self._mapping(value, place)
        if isinstance(value, SpecModel):
            return self.read(value.model_dump(exclude_unset=True), place)
        if isinstance(value, (list, Sequence)) and not isinstance(value, (bytes, bytearray, memoryview)):
            self._count(len(value), place, only_look=True)
            return [self.read(each, (*place, at)) for at, each in enumerate(value)]
        return _number(_unwrapped(value), place)

    def _mapping(self, value: Mapping[Any, Any], place: Place) -> dict[str, Any]:
        copy = {}
        for each, below in value.items():
            key = self._key(each, place)
            copy[key] = self.read(below, (*place, key))
        return copy

    def _key(self, key: Any, place: Place) -> str:
        if not isinstance(key, str):
            raise _refusal(place, f"a key of type {_type(key)}", "keys that are text", "Write the key in quotes.")
        return self._text(str.__str__(key), place)

    def _text(self, text: str, place: Place) -> str:
        # A text has at least as many bytes as characters: refuse a long one before it is encoded.
        self._weigh(len(text), place)
        if not text.isascii():
            self._weigh(_more_bytes(text, place), place)
        if "\0" in text:
            fix = "Remove it; neither a variable nor an argument can hold one."
            raise _refusal(place, "text with a NUL character", "text without NUL characters", fix)
        return text

    def _count(self, more: int, place: Place, *, only_look: bool = False) -> None:
        if self._values + more > MOST_VALUES:
            raise _refusal(place[:1], "more values", f"at most {MOST_VALUES} values", "Shorten it.")
        self._values += 0 if only_look else more

    def _weigh(self, more: int, place: Place) -> None:
        self._bytes += more
        if self._bytes > MOST_FIELD_BYTES:
            fix = "Put the data into the image, a volume or object storage, and pass its place."
            raise _refusal(place[:1], f"more than {MOST_FIELD_BYTES} bytes", f"at most {MOST_FIELD_BYTES} bytes", fix)


def _more_bytes(text: str, place: Place) -> int:
    """By how much a text's number of bytes exceeds its number of characters."""
    try:
        return len(text.encode()) - len(text)
    except UnicodeEncodeError:
        fix = "Decode the text as UTF-8 where it is read."
        raise _refusal(place, "broken text", "text of Unicode characters", fix) from None


def _unwrapped(value: Any) -> Any:
    """The Python value of a scalar of numpy or a similar library."""
    if isinstance(value, (int, float)) or getattr(value, "shape", None) != ():
        return value
    return value.item()


def _number(value: Any, place: Place) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        whole = int(value)
        if whole.bit_length() > _MOST_BITS:
            raise _refusal(place, "a longer number", f"a number of at most {_MOST_BITS} bits", "Correct it.")
        return whole
    if isinstance(value, Decimal):
        if value.is_finite() and abs(value.adjusted()) <= _MOST_EXPONENT:
            return format(value, "f")
        raise _refusal(place, "a Decimal", "a finite number", "Correct it.")
    if isinstance(value, Real):
        number = float(value)
        if not math.isfinite(number):
            raise _refusal(place, number, "a finite number", "Correct it, or leave it out.")
        return number
    raise _foreign(value, place)


def _foreign(value: Any, place: Place) -> SpecError:
    return _refusal(place, _type(value), _ALLOWED, _way_out(type(value)))


def _way_out(kind: type) -> str:
    if hasattr(kind, "attribute_map"):
        return (
            "Pass a mapping with Kubernetes' own names: kubernetes.client.ApiClient().sanitize_for_serialization() "
            "makes one of the client's models. Their to_dict() does not, since its names are Python's."
        )
    if hasattr(kind, "model_dump"):
        return (
            "Pass a mapping: model_dump(mode='json', by_alias=True, exclude_unset=True) makes one of a pydantic model."
        )
    if issubclass(kind, (set, frozenset)) or hasattr(kind, "__next__"):
        return "Pass a list."
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return "Decode it to text."
    return "Write it as text, e.g. with str() or isoformat()."


def _type(value: Any) -> str:
    return type(value).__name__[:_LONGEST_KEY]


def _refusal(place: Place, value: Any, allowed: str, fix: str) -> SpecError:
    return SpecError([Problem(path(place), value, allowed, fix)])
