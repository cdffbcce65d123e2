"""JSON merge patches (RFC 7386), by which this package changes the objects of a job."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider.kinds.base import Manifest


def merged(value: Any, patch: Manifest) -> Manifest:
    """The object with a patch applied. The object itself is left as it is.

    :param value: the object; what is no mapping is replaced.
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
    """The object with a number that is no greater than the one that a patch would set.

    :param value: the object.
    :param patch: sets one field to a number.
    """
    given = value_at(value, patch)
    is_less = isinstance(given, int) and not isinstance(given, bool) and given <= value_at(patch, patch)
    return dict(value) if is_less else merged(value, patch)


def value_at(value: Any, patch: Manifest) -> Any:
    """What an object has in the one field that a patch would set; None where it has nothing.

    :param value: the object.
    :param patch: sets one field.
    """
    ((name, part),) = patch.items()
    found = value.get(name) if isinstance(value, dict) else None
    return value_at(found, part) if isinstance(part, dict) else found
