"""The exceptions of tasks: one for each kind of failure, so that callbacks and retry policies can distinguish kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow_trainer_provider.errors import TrainJobError
    from airflow_trainer_provider.job.diagnosis.causes import RetryCanHelp
    from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis


class TrainJobFailure(AirflowException):
    """Base class of the exceptions with which a task of this provider fails.

    If no retry can help, the exception is also an ``AirflowFailException``.

    :param message: the error's message.
    :param retry_can_help: whether the next try of the task can end differently.
    :param failure: the value of XCom ``failure``; None if no job of the task has ended.
    """

    def __init__(
        self, message: str, retry_can_help: RetryCanHelp = "unknown", failure: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.retry_can_help = retry_can_help
        self.failure = failure


class OutOfMemory(TrainJobFailure):
    """A replica needed more memory, or more shared memory, than its limit allows."""


class OutOfDisk(TrainJobFailure):
    """A pod wrote more to its disk, or to a volume, than the limit allows."""


class InfrastructureFailure(TrainJobFailure):
    """The cluster or the machine failed the job: a lost node, an eviction, a registry that did not answer."""


class ImageProblem(TrainJobFailure):
    """The image does not exist, or the right to pull it is missing."""


class UserError(TrainJobFailure):
    """The script or the command ended with an error of its own, or data that it needs could not be fetched."""


class Rejected(TrainJobFailure):
    """The job was refused: the spec is wrong, a policy forbids the job, or the cluster refuses a part of it."""


class NotStarted(TrainJobFailure):
    """Not all replicas started in time: no node has room, a claim is not bound, ``startup_timeout_seconds`` passed."""


class DeadlinePassed(TrainJobFailure):
    """``run_policy.active_deadline_seconds`` passed before the job had ended."""


_BY_KIND: Mapping[str, type[TrainJobFailure]] = {
    "memory": OutOfMemory,
    "disk": OutOfDisk,
    "infrastructure": InfrastructureFailure,
    "image": ImageProblem,
    "user": UserError,
    "rejected": Rejected,
    "start": NotStarted,
    "deadline": DeadlinePassed,
}


def failure_of(error: TrainJobError) -> TrainJobFailure:
    """The exception for an error. It is not an ``AirflowFailException``; see :func:`permanent`.

    :param error: what went wrong.
    """
    from airflow_trainer_provider.errors import BackendUnavailable, PolicyViolation, SpecError, SubmitError
    from airflow_trainer_provider.job.diagnosis.failed import JobFailed

    if isinstance(error, JobFailed):
        diagnosis = error.diagnosis
        return _class_of(diagnosis)(str(error), diagnosis.retry_can_help, diagnosis.to_xcom())
    is_rejected = isinstance(error, (SpecError, PolicyViolation, SubmitError, BackendUnavailable))
    return (Rejected if is_rejected else TrainJobFailure)(str(error), "unknown" if error.retryable else "no")


def _class_of(diagnosis: Diagnosis) -> type[TrainJobFailure]:
    # A triggerer with an earlier version of the provider does not send the kind.
    kind = "infrastructure" if diagnosis.infrastructure else diagnosis.kind
    return _BY_KIND.get(kind, TrainJobFailure)


def permanent(failure: TrainJobFailure) -> TrainJobFailure:
    """The same exception as an ``AirflowFailException``, after which Airflow never retries.

    :param failure: a failure that no retry can cure.
    """
    kind = type(failure)
    # The class has the same name in logs.
    names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    made: type[TrainJobFailure] = type(kind.__name__, (kind, AirflowFailException), names)
    return made(str(failure), failure.retry_can_help, failure.failure)
