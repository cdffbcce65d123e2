"""A retry policy for tasks of this provider. Airflow has retry policies since 3.3."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryDecision, RetryPolicy

from airflow_trainer_provider.operators.failures.exceptions import InfrastructureFailure, TrainJobFailure

if TYPE_CHECKING:
    from airflow.sdk import Context


class TrainJobRetryPolicy(RetryPolicy):
    """Use no retry for what no retry can cure, as without a policy; and another delay after failures of infrastructure.

    :param infrastructure_delay: how long Airflow waits for the next try where the cluster or the machine failed the
        job; None for the task's own ``retry_delay``.
    """

    def __init__(self, infrastructure_delay: timedelta | None = None) -> None:
        self.infrastructure_delay = infrastructure_delay

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide about a failure; those of other kinds are left to the task's ``retries``."""
        if not isinstance(exception, TrainJobFailure):
            return RetryDecision.default()
        reason = f"{type(exception).__name__}: retry can help: {exception.retry_can_help}"
        if exception.retry_can_help == "no":
            return RetryDecision.fail(reason)
        if isinstance(exception, InfrastructureFailure):
            return RetryDecision.retry(self.infrastructure_delay, reason)
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """As JSON values."""
        delay = self.infrastructure_delay
        return {"infrastructure_delay": None if delay is None else delay.total_seconds()}

    @classmethod
    def deserialize(cls, data: Mapping[str, Any]) -> TrainJobRetryPolicy:
        """Read what :meth:`serialize` has made.

        :param data: its values.
        """
        delay = data["infrastructure_delay"]
        return cls(None if delay is None else timedelta(seconds=delay))
