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
    """Validate the fields that a user set.

    :param values: the fields of :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`; None means unset.
    :return: the spec.
    :raises SpecError: names each wrong field, its value, the allowed values and the remedy.
    """
    return _parse(TrainJobSpec, given_fields(values))


def check_part(values: Mapping[str, Any]) -> None:
    """Validate a part of a spec, such as a preset: fields may be missing, but each given field has to be valid.

    :param values: fields of :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`.
    :raises SpecError: as :func:`parse_spec`.
    """
    # Rules over several fields are checked only if none of the fields is missing.
    given = {"framework": "any", **given_fields(values)}
    try:
        TrainJobSpec.model_validate(given)
    except ValidationError as error:
        problems = problems_of(error, TrainJobSpec, given, is_part=True)
        if problems:
            raise SpecError(problems) from None


def parse_manifest_spec(values: Mapping[str, Any]) -> ManifestSpec:
    """Validate the fields of a user who provides a manifest.

    :param values: the fields of :class:`~airflow_trainer_provider.spec.manifest.ManifestSpec`, and the operator's other
        fields of :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`; None means unset.
    :return: the spec.
    :raises SpecError: names the fields that are wrong, and the fields that have to be set in the manifest instead.
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
    """The remedy for a field that may not be set together with a manifest."""
    if field == "tools":
        return "Create the Service yourself, with a selector for the labels of the manifest's pods, or drop manifest."
    return "Write it in the manifest, or drop manifest."


def parse_field(field: str, kind: Any, value: Any) -> Any:
    """Validate a field that does not belong to a spec, such as an operator's ``namespace``.

    :param field: its name, for the error.
    :param kind: its type, e.g. :data:`~airflow_trainer_provider.spec.values.names.Namespace`.
    :param value: its value.
    :return: the validated value; None for None, and for the empty text that a template may render to.
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
    """The fields that are set, as plain JSON values.

    :param values: name of a field -> its value, of any type; None means unset.
    :raises SpecError: a field contains a value that JSON does not support, or exceeds the size limits of a field.
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
