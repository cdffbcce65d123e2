"""The shape of Kubernetes objects, for the fields that the provider reads before the API server checks them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import all_wrong
from airflow_trainer_provider.spec.values.plain import Place, path
from airflow_trainer_provider.spec.values.words import as_text, rendered_hint

#: Optional text, required text, a mapping of names to text, and a mapping of any values.
TEXT, NEEDED, TEXTS, MAPPING = "text", "needed", "texts", "mapping"
#: One of the above, a list with the shape of its items, or a mapping of known fields to shapes; other fields may exist.
Shape = str | list[Any] | Mapping[str, Any]
#: (shape, name of an unknown field in it) -> a hint where to write the field; None if it may be valid.
Misplaced = Callable[[Mapping[str, Any], str], str | None]


def shaped(shape: Shape, value: Any, misplaced: Misplaced) -> Any:
    """Check and copy a value. Numbers in place of text become text, and fields with null are left out.

    :param shape: the shape that the value must have.
    :param value: a plain value.
    :param misplaced: returns the remedy for an unknown field.
    :raises PydanticCustomError: the value has another shape; the error names all wrong places.
    """
    copier = _Copier(misplaced)
    copy = copier.copy(shape, value, ())
    if copier.problems:
        raise all_wrong(copier.problems)
    return copy


def in_camel_case(name: str) -> str | None:
    """A hint for a field in Python's spelling; None for a name without an underscore.

    :param name: the field's name. In Kubernetes no name of a field has an underscore.
    """
    if "_" not in name:
        return None
    return f"Write it as Kubernetes does: {re.sub(r'_([a-z])', lambda match: match[1].upper(), name[:63])}."


class _Copier:
    def __init__(self, misplaced: Misplaced) -> None:
        self.problems: list[Problem] = []
        self._misplaced = misplaced

    def copy(self, shape: Shape, value: Any, place: Place) -> Any:
        if shape in (TEXT, NEEDED):
            return self._text(value, place)
        if isinstance(shape, list):
            if not isinstance(value, list):
                return self._refuse(value, place, "a list")
            return [self.copy(shape[0], each, (*place, at)) for at, each in enumerate(value)]
        if not isinstance(value, Mapping):
            return self._refuse(value, place, "a mapping")
        # For Kubernetes null means unset; the client's to_dict() sets each unset field to None.
        given = {name: each for name, each in value.items() if each is not None}
        return self._fields(shape, given, place) if isinstance(shape, Mapping) else self._any(shape, given, place)

    def _any(self, shape: str, given: dict[str, Any], place: Place) -> dict[str, Any]:
        if shape == TEXTS:
            return {name: self._text(each, (*place, name)) for name, each in given.items()}
        return given

    def _fields(self, shape: Mapping[str, Any], given: dict[str, Any], place: Place) -> dict[str, Any]:
        misplaced = False
        for name in given.keys() - shape.keys():
            fix = self._misplaced(shape, name)
            if fix:
                misplaced = True
                self.problems.append(Problem(path((*place, name)), name[:63], "a field that belongs here", fix))
        for name, below in shape.items():
            # If a field is misplaced, the whole object may belong elsewhere, where this field is not required.
            if below == NEEDED and name not in given and not misplaced:
                self.problems.append(Problem(path((*place, name)), None, "text", f"Set {name}."))
        return {
            name: self.copy(shape[name], each, (*place, name)) if name in shape else each
            for name, each in given.items()
        }

    def _text(self, value: Any, place: Place) -> Any:
        found = as_text(value, path(place))
        if isinstance(found, Problem):
            self.problems.append(found)
            return value
        return found

    def _refuse(self, value: Any, place: Place, allowed: str) -> Any:
        hint = rendered_hint(value) if isinstance(value, str) else None
        self.problems.append(Problem(path(place), type(value).__name__, allowed, hint or f"Write {allowed}."))
        return value
