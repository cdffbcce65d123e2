"""Asks the retry policy of a task, if it has one, about a failure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_trainer_provider.operators.failures.exceptions import TrainJobFailure

log = logging.getLogger(__name__)


def retries(failure: TrainJobFailure, context: Context) -> bool:
    """Whether the task's own retry policy retries a failure that, as far as is known, no retry can cure.

    Airflow does not ask the policy about an ``AirflowFailException``, so the provider asks it before.

    :param failure: the task's failure.
    :param context: the task's context.
    """
    ti: Any = context["ti"]
    policy = getattr(getattr(ti, "task", None), "retry_policy", None)
    if policy is None:
        return False
    try:
        decision = policy.evaluate(exception=failure, try_number=ti.try_number, max_tries=ti.max_tries, context=context)
        return bool(decision.action.value == "retry")
    except Exception:
        log.exception("The task's retry policy has failed; the failure counts as one that no retry can cure")
        return False
