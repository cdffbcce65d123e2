"""Turns pydantic's errors into problems that name what to write instead."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.misplaced import way_out
from airflow_trainer_provider.spec.values.base import GIVEN, RULE
from airflow_trainer_provider.spec.values.plain import Place, path
from airflow_trainer_provider.spec.values.words import rendered_hint

_ALLOWED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping of its fields",
    "tuple_type": "a list",
    "too_short": "a list that is not empty",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
#: Errors about a single value in place of a mapping or a list.
_SHAPES = frozenset({"dict_type", "mapping_type", "model_type", "tuple_type"})
_NUMBERS = frozenset({"int_type", "float_type"})
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
#: Bounds the error: each item of a list may be wrong.
_MOST_PROBLEMS = 100
_LONGEST_WORD = 63


def problems_of(
    error: ValidationError,
    model: type[BaseModel] | None,
    given: Mapping[str, Any],
    place: Place = (),
    *,
    is_part: bool = False,
) -> list[Problem]:
    """The problems of a value, in words for the user.

    :param error: the error of the value's validation.
    :param model: the model that the value was validated as; None for a type without fields.
    :param given: the fields that the user wrote, as plain values.
    :param place: the path of the value in ``given``.
    :param is_part: whether missing fields are allowed, since another part of the spec may set them.
    """
    details = error.errors(include_url=False)
    details = [each for each in details if not (is_part and each["type"] == "missing")][:_MOST_PROBLEMS]
    for each in details:
        each["loc"] = (*place, *each["loc"])
    return _once(itertools.chain.from_iterable(_problems(each, model, given) for each in details))


def nearest(word: object, allowed: Iterable[str]) -> str | None:
    """The allowed word that the user most likely meant.

    :param word: the word that was written.
    :param allowed: the allowed words.
    :return: the closest allowed word; None if none is close.
    """
    text = str(word).lower()
    matches = difflib.get_close_matches(text, list(allowed), n=1, cutoff=0.7) if len(text) <= _LONGEST_WORD else ()
    return matches[0] if matches else None


def choice(field: str, value: object, allowed: Iterable[str], otherwise: str) -> Problem:
    """The problem of a word that is not one of the allowed words.

    :param field: the field's path.
    :param value: the word that was written.
    :param allowed: the allowed words.
    :param otherwise: the remedy if no allowed word is close.
    """
    words = list(allowed)
    near = nearest(value, words)
    return Problem(field, value, ", ".join(words), f"Did you mean {near!r}?" if near else otherwise)


def _problems(details: ErrorDetails, model: type[BaseModel] | None, given: Any) -> Iterator[Problem]:
    place, value = _written(given, details)
    field, kind = path(place), details["type"]
    if kind == RULE:
        for problem in details["ctx"]["problems"]:
            shown = _shown(kind, value) if problem.value is GIVEN else problem.value
            yield Problem(_joined(field, problem.field), shown, problem.allowed, problem.fix)
    elif kind == "missing":
        yield Problem(field, None, "a value", f"Set {field}.")
    elif kind == "extra_forbidden":
        fix = way_out(place) or "Remove it; it is not a field here."
        fields = list(_model_at(model, details["loc"][:-1]).model_fields) if model else []
        yield choice(field, place[-1], fields, fix)
    elif kind == "literal_error":
        words = details["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        yield choice(field, _shown(kind, value), words, "Use one of these.")
    else:
        yield Problem(field, _shown(kind, value), *_allowed_and_fix(details, field, value))


def _allowed_and_fix(details: ErrorDetails, field: str, value: Any) -> tuple[str, str]:
    kind = details["type"]
    if kind in _BOUNDS:
        allowed = f"a number of {_BOUNDS[kind].format(**details['ctx'])}"
        return allowed, f"Set {field} to {allowed}."
    if kind == "too_long":
        return f"at most {details['ctx']['max_length']} items", f"Shorten {field}."
    if kind == "string_too_long":
        return f"text of at most {details['ctx']['max_length']} characters", f"Shorten {field}."
    allowed = _ALLOWED.get(kind, details["msg"])
    if kind in _NUMBERS and isinstance(value, (Mapping, list)):
        return allowed, "Write the number itself."
    hint = rendered_hint(value) if kind in _SHAPES and isinstance(value, str) else None
    return allowed, hint or f"Change {field}."


def _joined(field: str, below: str) -> str:
    return f"{field}{below}" if not field or not below or below.startswith("[") else f"{field}.{below}"


def _shown(kind: str, value: Any) -> Any:
    """The value as an error may show it. Containers are shown by type only: their variables may be secrets."""
    if isinstance(value, (Mapping, list, tuple)):
        return type(value).__name__
    if isinstance(value, str) and kind in _SHAPES:
        return type(value).__name__
    return value


def _once(problems: Iterable[Problem]) -> list[Problem]:
    """Merge the problems of a union's branches (``num_proc_per_node``) into one problem per field."""
    by_field: dict[str, Problem] = {}
    for problem in problems:
        first = by_field.get(problem.field)
        if first is None:
            by_field[problem.field] = problem
        elif problem.allowed not in first.allowed:
            fix = problem.fix if problem.fix.startswith("Did you mean") else first.fix
            by_field[problem.field] = Problem(
                problem.field, problem.value, f"{first.allowed}, or {problem.allowed}", fix
            )
    return list(by_field.values())


def _written(given: Any, details: ErrorDetails) -> tuple[Place, Any]:
    """The path of an error in what the user wrote, and the value there.

    pydantic's path has parts that the user did not write: the branch of a union, and the fields of a short form's long
    form (`cpu: 2`).
    """
    place: Place = ()
    value = given
    for part in details["loc"]:
        if _is_in(part, value):
            place, value = (*place, part), value[part]
    return ((*place, details["loc"][-1]), None) if details["type"] == "missing" else (place, value)


def _is_in(part: str | int, value: Any) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, Mapping) and part in value


def _model_at(model: type[BaseModel], loc: Place) -> type[BaseModel]:
    for part in loc:
        if isinstance(part, str) and part in model.model_fields:
            model = _part_model(model.model_fields[part].annotation) or model
    return model


def _part_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _part_model(argument)
        if found:
            return found
    return None
