"""The shape of Kubernetes objects, as far as this provider reads them before the API server does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import all_wrong
from airflow_trainer_provider.spec.values.plain import Place, path
from airflow_trainer_provider.spec.values.words import as_text, rendered_hint

#: Text, text that has to be there, a mapping of names to text, and a mapping of anything.
TEXT, NEEDED, TEXTS, MAPPING = "text", "needed", "texts", "mapping"
#: One of these, a list with the shape of its items, or a mapping with those of its known fields; it may have others.
Shape = str | list[Any] | Mapping[str, Any]
#: (shape, an unknown field of it) -> where to write that; None where it may be right.
Misplaced = Callable[[Mapping[str, Any], str], str | None]


def shaped(shape: Shape, value: Any, misplaced: Misplaced) -> Any:
    """Copy a value, with numbers as text where Kubernetes has text, and without nulls where fields are known.

    :param shape: what the value has to be.
    :param value: a plain value.
    :param misplaced: finds out what is wrong with an unknown field.
    :raises PydanticCustomError: with all places that have another shape.
    """
    copier = _Copier(misplaced)
    copy = copier.copy(shape, value, ())
    if copier.problems:
        raise all_wrong(copier.problems)
    return copy


def in_camel_case(name: str) -> str | None:
    """How to write a field that has Python's spelling; None for one that has not.

    :param name: of a field. None in Kubernetes has an underscore.
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
        # null is the same as no value to Kubernetes; the client's to_dict() has it for each field.
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
            # The whole may belong elsewhere, where it needs no such field.
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
