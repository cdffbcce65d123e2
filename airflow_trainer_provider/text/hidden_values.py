"""Values that are stored and printed with their secrets masked.

An object of the same kind replaces a value that has a secret: code that uses it gets the value, and code that
serializes it gets the masked copy.
"""

from __future__ import annotations

from collections import UserDict, UserList, UserString
from collections.abc import Mapping
from typing import Any


class _Hidden:
    """A value that is stored and printed with its secrets masked."""

    data: Any
    #: The name of the field.
    field = ""

    def serialize(self) -> Any:
        """The masked copy. Airflow calls this for values that are not JSON."""
        from airflow_trainer_provider.text.redaction import redacted

        return redacted(self.data, self.field)

    def __repr__(self) -> str:
        return repr(self.serialize())


class _HiddenMapping(_Hidden, UserDict[Any, Any]):
    pass


class _HiddenList(_Hidden, UserList[Any]):
    pass


class _HiddenText(_Hidden, UserString):
    pass


class _HiddenOther(_Hidden):
    def __init__(self, data: Any) -> None:
        self.data = data


def hidden(value: Any, field: str = "") -> Any:
    """The value itself, or an object that hides its secrets.

    :param value: of a field, as rendered.
    :param field: the field's name.
    """
    from airflow_trainer_provider.text.redaction import secrets_in

    if not secrets_in(value, field):
        return value
    if isinstance(value, Mapping):
        found: _Hidden = _HiddenMapping(value)
    elif isinstance(value, (list, tuple)):
        found = _HiddenList(value)
    else:
        found = _HiddenText(value) if isinstance(value, str) else _HiddenOther(value)
    found.field = field
    return found


def given(value: Any) -> Any:
    """The value of a field as rendered, with its secrets.

    :param value: of the field, hidden or not.
    """
    return value.data if isinstance(value, _Hidden) else value
