"""JSON merge patches (RFC 7386), with which this package changes the objects of a job."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider.kinds.base import Manifest


def merged(value: Any, patch: Manifest) -> Manifest:
    """The object with a patch applied. The object itself is not changed.

    :param value: the object; a value that is not a mapping is replaced.
    :param patch: None as a value removes the field.
    """
    result = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), part) if isinstance(part, dict) else part
    return result


def bounded(value: Any, patch: Manifest) -> Manifest:
    """The object with the number that a patch sets, unless the object already has one that is not greater.

    :param value: the object.
    :param patch: sets one field to a number.
    """
    given = value_at(value, patch)
    is_less = isinstance(given, int) and not isinstance(given, bool) and given <= value_at(patch, patch)
    return dict(value) if is_less else merged(value, patch)


def value_at(value: Any, patch: Manifest) -> Any:
    """The value of the one field that a patch would set; None where the object does not have the field.

    :param value: the object.
    :param patch: sets one field.
    """
    ((name, part),) = patch.items()
    found = value.get(name) if isinstance(value, dict) else None
    return value_at(found, part) if isinstance(part, dict) else found
