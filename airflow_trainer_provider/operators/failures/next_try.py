"""Whether the next try would ask for other limits than the try whose job has reached its limits."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from airflow_trainer_provider.job.outcome import JobOutcome
    from airflow_trainer_provider.job.plan.plan import Plan

log = logging.getLogger(__name__)

_Operator = TypeVar("_Operator", bound="BaseOperator")

#: Kinds of failures that a job with other limits may avoid.
_OF_LIMITS = ("memory", "disk")


def is_final_by_limits(outcome: JobOutcome) -> bool:
    """Whether the same job, tried again unchanged, would reach the same limit again.

    :param outcome: the job's outcome.
    """
    failure = outcome.failure
    return failure is not None and failure.retry_can_help == "no" and failure.kind in _OF_LIMITS


def of_next_try(
    operator: _Operator, templates: Mapping[str, Any], rendered: Collection[int], context: Context
) -> _Operator:
    """The operator with its fields rendered for the next try: with the same context, but the next try's number.

    :param operator: the operator of this try.
    :param templates: the operator's fields before they were rendered.
    :param rendered: ids of values in these fields that are not templates, such as values that a mapped task got from
        other tasks.
    :param context: the context of this try.
    """
    again = copy.copy(operator)
    ti: Any = copy.copy(context["ti"])
    ti.try_number += 1
    following: Any = {**context, "ti": ti, "task_instance": ti}
    env = operator.get_template_env()
    for field, template in templates.items():
        setattr(again, field, operator.render_template(template, following, env, set(rendered)))
    return again


def limits_of(job: Plan) -> Any:
    """The limits of a job: memory, devices, disk and volumes. They are equal for two jobs that request the same.

    :param job: a job that is laid out, or a user's manifest.
    """
    from airflow_trainer_provider.job.plan.plan import JobPlan

    if not isinstance(job, JobPlan):
        return job.spec.manifest
    replicas = [(replica.name, replica.resources, replica.volumes) for replica in job.replicas]
    return replicas, job.spec.pod_template, job.spec.runtime_name


def weighed(outcome: JobOutcome, now: Callable[[], Plan], following: Callable[[], Plan]) -> JobOutcome:
    """The outcome of a job that has reached its limits, amended by whether the next try asks for other limits.

    :param outcome: the job's outcome, for which :func:`is_final_by_limits` is true.
    :param now: returns the job that this try asks for.
    :param following: returns the job that the next try would ask for.
    """
    failure = outcome.failure
    assert failure is not None, "what is final by its limits has failed"
    try:
        changes = limits_of(following()) != limits_of(now())
    except Exception as error:
        # An error in the next try's templates must not replace the outcome of this try.
        from airflow_trainer_provider.text.redaction import redacted_text

        log.warning("What the next try would ask for cannot be said: %s", redacted_text(str(error)))
        return outcome
    if not changes:
        way_out = f"{failure.way_out or ''} The next try would ask for the same.".strip()
        return replace(outcome, failure=replace(failure, way_out=way_out))
    way_out = "The next try asks for other limits, as its templates say."
    return replace(outcome, failure=replace(failure, retry_can_help="unknown", way_out=way_out))
