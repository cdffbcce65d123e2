"""Turns what a user wrote into a spec, or into an error that says what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.spec.job import RunPolicy, TrainJobSpec
from airflow_trainer_provider.spec.manifest import ManifestRunPolicy, ManifestSpec
from airflow_trainer_provider.spec.validation import problems_of
from airflow_trainer_provider.spec.values.plain import plain

_Spec = TypeVar("_Spec", bound=BaseModel)


def parse_spec(values: Mapping[str, Any]) -> TrainJobSpec:
    """Validate what a user asked for.

    :param values: the fields of :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`; None leaves one out.
    :return: the spec.
    :raises SpecError: naming the fields that are wrong, their values, what is allowed and the way out.
    """
    return _parse(TrainJobSpec, given_fields(values))


def check_part(values: Mapping[str, Any]) -> None:
    """Validate a part of a spec, as a preset is: fields may be missing, but what stands there has to be right.

    :param values: fields of :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`.
    :raises SpecError: as :func:`parse_spec`.
    """
    # What concerns several fields is validated only where none is missing.
    given = {"framework": "any", **given_fields(values)}
    try:
        TrainJobSpec.model_validate(given)
    except ValidationError as error:
        problems = problems_of(error, TrainJobSpec, given, is_part=True)
        if problems:
            raise SpecError(problems) from None


def parse_manifest_spec(values: Mapping[str, Any]) -> ManifestSpec:
    """Validate what a user asked for who brings a manifest.

    :param values: the fields of :class:`~airflow_trainer_provider.spec.manifest.ManifestSpec`, and those of
        :class:`~airflow_trainer_provider.spec.job.TrainJobSpec` that are in the operator; None leaves one out.
    :return: the spec.
    :raises SpecError: naming the fields that are wrong, or that the manifest itself says.
    """
    given = given_fields(values)
    said = [name for name in given if name not in ManifestSpec.model_fields]
    policy = given.get("run_policy")
    own = RunPolicy.model_fields.keys() - ManifestRunPolicy.model_fields.keys()
    said += [f"run_policy.{name}" for name in policy if name in own] if isinstance(policy, Mapping) else []
    if said:
        raise SpecError([Problem(name, "a value", "no value beside manifest", _instead(name)) for name in said])
    return _parse(ManifestSpec, given)


def _instead(field: str) -> str:
    """What to do about a field that may not stand beside a manifest."""
    if field == "tools":
        return "Create the Service yourself, with a selector for the labels of the manifest's pods, or drop manifest."
    return "Write it in the manifest, or drop manifest."


def parse_field(field: str, kind: Any, value: Any) -> Any:
    """Validate a field that is part of no spec, such as an operator's ``namespace``.

    :param field: its name, for the error.
    :param kind: its type, e.g. :data:`~airflow_trainer_provider.spec.values.names.Namespace`.
    :param value: its value. None stays None, and so does text that a template rendered to nothing.
    :raises SpecError: the value is of another type.
    """
    given = {field: plain(field, value)}
    if given[field] in (None, ""):
        return None
    try:
        return _adapter(kind).validate_python(given[field])
    except ValidationError as error:
        raise SpecError(problems_of(error, None, given, (field,))) from None


@functools.lru_cache(maxsize=16)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def given_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value, made of plain values.

    :param values: of any type; None leaves a field out.
    :raises SpecError: a field holds what JSON does not have, or more than a field may hold.
    """
    given: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in values.items():
        try:
            given |= {} if value is None else {name: plain(name, value)}
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)
    return given


def _parse(model: type[_Spec], given: Mapping[str, Any]) -> _Spec:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise SpecError(problems_of(error, model, given)) from None
