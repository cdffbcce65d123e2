"""Fields of operators and sensors that are part of no spec."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow_trainer_provider.text.hidden_values import given


def check_names(task: Any, fields: Collection[str]) -> None:
    """Validate fields that name something, once they are rendered. One that was rendered to nothing is left out.

    :param task: an operator or a sensor.
    :param fields: of ``name``, ``selector``, ``kind``, ``backend``, ``namespace`` and ``kubernetes_conn_id``.
    :raises SpecError: one has a value that it cannot have.
    """
    from airflow_trainer_provider.hooks.backends import DEFAULT_CONNECTION

    defaults = {"kubernetes_conn_id": DEFAULT_CONNECTION}
    for field in fields:
        value = _parsed(task, field)
        if value is None:
            value = defaults.get(field)
        # What hides a secret in it stays: Airflow stores the fields of a task that has ended once more.
        if value is not given(getattr(task, field)):
            setattr(task, field, value)


def valid_names(task: Any, fields: Collection[str]) -> dict[str, str]:
    """The values of those fields that name something, and have a value that they can have.

    :param task: an operator or a sensor, whose fields are rendered.
    :param fields: of the task.
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
    """Say where arguments belong that have a name of Kubernetes' or of Airflow's Kubernetes operators.

    :param arguments: those that an operator does not have.
    :raises SpecError: at least one of them belongs elsewhere.
    """
    from airflow_trainer_provider.errors import Problem, SpecError
    from airflow_trainer_provider.spec.misplaced import way_out

    found = {name: fix for name in arguments if (fix := way_out((name,)))}
    if found:
        raise SpecError([Problem(name, "a value", "a parameter of the operator", fix) for name, fix in found.items()])
