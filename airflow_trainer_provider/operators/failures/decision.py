"""What the retry policy that a task may have decides about a failure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_trainer_provider.operators.failures.exceptions import TrainJobFailure

log = logging.getLogger(__name__)


def retries(failure: TrainJobFailure, context: Context) -> bool:
    """Whether the task's own retry policy tries a failure again that no retry can cure, as far as is known.

    Airflow itself asks no policy about an ``AirflowFailException``.

    :param failure: of the task.
    :param context: the task's.
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
