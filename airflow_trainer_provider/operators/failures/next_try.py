"""Whether the next try would ask for other limits than the one that failed of them."""

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

#: Kinds of failures that a job with other limits may not have.
_OF_LIMITS = ("memory", "disk")


def is_final_by_limits(outcome: JobOutcome) -> bool:
    """Whether the same job, tried again unchanged, would reach the same limit again.

    :param outcome: of the job.
    """
    failure = outcome.failure
    return failure is not None and failure.retry_can_help == "no" and failure.kind in _OF_LIMITS


def of_next_try(
    operator: _Operator, templates: Mapping[str, Any], rendered: Collection[int], context: Context
) -> _Operator:
    """The operator as the next try would have it, as far as that depends on the number of the try.

    :param operator: as this try has it.
    :param templates: its fields before they were rendered.
    :param rendered: ids of values in these that are no templates, such as those that a mapped task got from others.
    :param context: of this try.
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
    """The limits of a job, which two jobs that ask for the same have in common: memory, devices, disk, volumes.

    :param job: laid out, or a manifest.
    """
    from airflow_trainer_provider.job.plan.plan import JobPlan

    if not isinstance(job, JobPlan):
        return job.spec.manifest
    replicas = [(replica.name, replica.resources, replica.volumes) for replica in job.replicas]
    return replicas, job.spec.pod_template, job.spec.runtime_name


def weighed(outcome: JobOutcome, now: Callable[[], Plan], following: Callable[[], Plan]) -> JobOutcome:
    """The outcome of a job, whose failure says whether the next try asks for other limits than those it reached.

    :param outcome: of the job; :func:`is_final_by_limits`.
    :param now: the job that this try asks for.
    :param following: the job that the next try would ask for.
    """
    failure = outcome.failure
    assert failure is not None, "what is final by its limits has failed"
    try:
        changes = limits_of(following()) != limits_of(now())
    except Exception as error:
        # The outcome counts, whatever the templates make of the next try.
        from airflow_trainer_provider.text.redaction import redacted_text

        log.warning("What the next try would ask for cannot be said: %s", redacted_text(str(error)))
        return outcome
    if not changes:
        way_out = f"{failure.way_out or ''} The next try would ask for the same.".strip()
        return replace(outcome, failure=replace(failure, way_out=way_out))
    way_out = "The next try asks for other limits, as its templates say."
    return replace(outcome, failure=replace(failure, retry_can_help="unknown", way_out=way_out))
