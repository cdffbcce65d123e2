"""Turns what a user wrote into a spec, or into an error that says what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.spec.job import RunPolicy, TrainJobSpec
from airflow_trainer_provider.spec.manifest import ManifestRunPolicy, ManifestSpec

_Spec = TypeVar("_Spec", bound=BaseModel)
_ALLOWED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping of its fields",
    "tuple_type": "a list",
    "finite_number": "a finite number",
}
#: Errors of a value that should have been several.
_SHAPES = frozenset({"dict_type", "mapping_type", "model_type", "tuple_type"})
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}


def parse_spec(values: Mapping[str, Any]) -> TrainJobSpec:
    """Validate what a user asked for.

    :param values: the fields of :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`; None leaves one out.
    :return: the spec.
    :raises SpecError: naming every field that is wrong, its value, what is allowed and the way out.
    """
    return _parse(TrainJobSpec, {name: value for name, value in values.items() if value is not None})


def parse_manifest_spec(values: Mapping[str, Any]) -> ManifestSpec:
    """Validate what a user asked for who brings a manifest.

    :param values: the fields of :class:`~airflow_trainer_provider.spec.manifest.ManifestSpec`, and those of
        :class:`~airflow_trainer_provider.spec.job.TrainJobSpec` that are in the operator; None leaves one out.
    :return: the spec.
    :raises SpecError: naming every field that is wrong, or that the manifest itself says.
    """
    given = {name: value for name, value in values.items() if value is not None}
    said = [name for name in given if name not in ManifestSpec.model_fields]
    policy = given.get("run_policy")
    own = RunPolicy.model_fields.keys() - ManifestRunPolicy.model_fields.keys()
    said += [f"run_policy.{name}" for name in policy if name in own] if isinstance(policy, Mapping) else []
    if said:
        fix = "Write it in the manifest, or drop manifest."
        raise SpecError([Problem(name, "a value", "no value beside manifest", fix) for name in said])
    return _parse(ManifestSpec, given)


def _parse(model: type[_Spec], given: Mapping[str, Any]) -> _Spec:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = [_problem(details, given) for details in error.errors(include_url=False)]
        raise SpecError(_once(problems)) from None


def nearest(word: object, allowed: Iterable[str]) -> str | None:
    """The allowed word that the user most likely meant.

    :param word: what was written.
    :param allowed: what could have been written.
    :return: the near miss, or None where nothing is near.
    """
    matches = difflib.get_close_matches(str(word).lower(), list(allowed), n=1, cutoff=0.7)
    return matches[0] if matches else None


def choice(field: str, value: object, allowed: Iterable[str], otherwise: str) -> Problem:
    """The problem of a word that is not one of those allowed.

    :param field: the field's path.
    :param value: what was written.
    :param allowed: what could have been written.
    :param otherwise: the way out where nothing is near.
    """
    words = list(allowed)
    near = nearest(value, words)
    return Problem(field, value, ", ".join(words), f"Did you mean {near!r}?" if near else otherwise)


def _problem(details: ErrorDetails, given: Mapping[str, Any]) -> Problem:
    field, kind = _path(_written(given, details["loc"])), details["type"]
    value = _value_at(given, details["loc"])
    if kind == "rule":
        context = details["ctx"]
        shown = value if context["value"] is None else context["value"]
        return Problem(".".join(filter(None, [field, context["field"]])), shown, context["allowed"], context["fix"])
    if kind == "missing":
        return Problem(field, None, "a value", f"Set {field}.")
    if kind == "extra_forbidden":
        fields = list(_model_at(details["loc"][:-1]).model_fields)
        return choice(field, details["loc"][-1], fields, "Remove it; it is not a field here.")
    if kind == "literal_error":
        words = details["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return choice(field, value, words, "Use one of these.")
    return Problem(field, _shown(details, value), *_allowed_and_fix(details, field, value))


def _allowed_and_fix(details: ErrorDetails, field: str, value: Any) -> tuple[str, str]:
    kind = details["type"]
    if kind in _BOUNDS:
        allowed = f"a number of {_BOUNDS[kind].format(**details['ctx'])}"
        return allowed, f"Set {field} to {allowed}."
    allowed = _ALLOWED.get(kind, details["msg"])
    if kind == "string_type" and isinstance(value, (int, float)):
        return allowed, "Write it as text, in quotes."
    return allowed, f"Change {field}."


def _shown(details: ErrorDetails, value: Any) -> Any:
    """The value as an error may show it: a variable's, or a whole group's with its variables, may be a secret."""
    if "env" in details["loc"] or isinstance(value, (Mapping, list, tuple)):
        return type(value).__name__
    if isinstance(value, str) and details["type"] in _SHAPES:
        return type(value).__name__
    return value


def _once(problems: Iterable[Problem]) -> list[Problem]:
    """Join the branches of a union (``num_proc_per_node``) to one problem per field."""
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


#: Names that pydantic puts into an error's place for the branch of a union or the wrapper of a type.
def _is_branch(part: str | int) -> bool:
    return isinstance(part, str) and ("[" in part or part in {"constrained-int", "int", "CpuAmount", "MemoryAmount"})


def _path(loc: tuple[str | int, ...]) -> str:
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _is_branch(part):
            path += f".{part}" if path else part
    return path


def _value_at(given: Any, loc: tuple[str | int, ...]) -> Any:
    value = given
    for part in loc:
        if _is_branch(part):
            continue
        try:
            value = getattr(value, str(part)) if isinstance(value, BaseModel) else value[part]
        except (KeyError, IndexError, TypeError, AttributeError):
            # A scalar that stood for a mapping (`cpu: 2`): the scalar is what the user wrote.
            return value
    return value


def _written(given: Any, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place as far as the user wrote it: one value for requests and limits (`cpu: 2`) is one place."""
    value = given
    for depth, part in enumerate(loc):
        if _is_branch(part):
            continue
        if not isinstance(value, (Mapping, BaseModel, list, tuple)):
            return loc[:depth]
        value = _value_at(value, (part,))
    return loc


def _model_at(loc: tuple[str | int, ...]) -> type[BaseModel]:
    model: type[BaseModel] = TrainJobSpec
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
