"""Fields of operators and sensors that do not belong to a spec."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow_trainer_provider.text.hidden_values import given


def check_names(task: Any, fields: Collection[str]) -> None:
    """Validate rendered fields with names. A field that a template rendered to empty text becomes unset.

    :param task: an operator or a sensor.
    :param fields: some of ``name``, ``selector``, ``kind``, ``backend``, ``namespace`` and ``kubernetes_conn_id``.
    :raises SpecError: a field has an invalid value.
    """
    from airflow_trainer_provider.hooks.backends import DEFAULT_CONNECTION

    defaults = {"kubernetes_conn_id": DEFAULT_CONNECTION}
    for field in fields:
        value = _parsed(task, field)
        if value is None:
            value = defaults.get(field)
        # Keep an unchanged value in its wrapper that hides secrets: Airflow stores the fields again when the task ends.
        if value is not given(getattr(task, field)):
            setattr(task, field, value)


def valid_names(task: Any, fields: Collection[str]) -> dict[str, str]:
    """The fields with names whose value is valid: name of the field -> value.

    :param task: an operator or a sensor, after its fields were rendered.
    :param fields: the task's fields to look at.
    """
    from airflow_trainer_provider.errors import SpecError
    from airflow_trainer_provider.hooks.backends import check_backend

    names = {}
    for field in {"name", "selector", "backend", "namespace", "kubernetes_conn_id"}.intersection(fields):
        try:
            value = _parsed(task, field)
            if value and field == "backend":
                check_backend(field, value)
        except SpecError:
            continue
        if value:
            names[field] = value
    return names


def _parsed(task: Any, field: str) -> Any:
    from airflow_trainer_provider.spec import parse_field
    from airflow_trainer_provider.spec.values.names import ConnectionId, Namespace, ObjectName, Selector
    from airflow_trainer_provider.spec.values.words import Text

    kinds = {"name": ObjectName, "namespace": Namespace, "kubernetes_conn_id": ConnectionId, "selector": Selector}
    return parse_field(field, kinds.get(field, Text), given(getattr(task, field)))


def refuse_misplaced(arguments: Mapping[str, Any]) -> None:
    """Report where arguments belong whose names come from Kubernetes or from Airflow's Kubernetes operators.

    :param arguments: the arguments that the operator does not have.
    :raises SpecError: at least one of them belongs elsewhere.
    """
    from airflow_trainer_provider.errors import Problem, SpecError
    from airflow_trainer_provider.spec.misplaced import way_out

    found = {name: fix for name in arguments if (fix := way_out((name,)))}
    if found:
        raise SpecError([Problem(name, "a value", "a parameter of the operator", fix) for name, fix in found.items()])
