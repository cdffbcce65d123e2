"""A retry policy for tasks of this provider. Airflow supports retry policies since 3.3."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryDecision, RetryPolicy

from airflow_trainer_provider.operators.failures.exceptions import InfrastructureFailure, TrainJobFailure

if TYPE_CHECKING:
    from airflow.sdk import Context


class TrainJobRetryPolicy(RetryPolicy):
    """Fails at once if no retry can help, as tasks without a policy do, and sets a delay for infrastructure failures.

    :param infrastructure_delay: how long Airflow waits before the next try after a failure of the cluster or the
        machine; None uses the task's own ``retry_delay``.
    """

    def __init__(self, infrastructure_delay: timedelta | None = None) -> None:
        self.infrastructure_delay = infrastructure_delay

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide about a failure. Failures that the policy has no rule for are left to the task's ``retries``."""
        if not isinstance(exception, TrainJobFailure):
            return RetryDecision.default()
        reason = f"{type(exception).__name__}: retry can help: {exception.retry_can_help}"
        if exception.retry_can_help == "no":
            return RetryDecision.fail(reason)
        if isinstance(exception, InfrastructureFailure):
            return RetryDecision.retry(self.infrastructure_delay, reason)
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """The policy as JSON values."""
        delay = self.infrastructure_delay
        return {"infrastructure_delay": None if delay is None else delay.total_seconds()}

    @classmethod
    def deserialize(cls, data: Mapping[str, Any]) -> TrainJobRetryPolicy:
        """Create a policy from the values of :meth:`serialize`.

        :param data: the JSON values.
        """
        delay = data["infrastructure_delay"]
        return cls(None if delay is None else timedelta(seconds=delay))
