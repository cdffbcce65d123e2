"""The errors of training jobs: each names the object, the reason and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_trainer_provider.job.diagnosis import Diagnosis


class TrainJobError(Exception):
    """Base of every error that this provider raises on purpose."""

    #: Whether the same task, tried again unchanged, can end differently.
    retryable = True


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with what the user asked for.

    :param field: the field's path as the user writes it, e.g. ``replicas.worker.env``.
    :param value: the value that was given; None where the field is missing.
    :param allowed: what would have been accepted.
    :param fix: what to do instead.
    """

    field: str
    value: Any
    allowed: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field}: got {self.value!r}; allowed: {self.allowed}. {self.fix}"


class SpecError(TrainJobError):
    """What was asked for cannot be a job. Nothing was created.

    :param problems: everything that is wrong, not just the first.
    """

    retryable = False

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        heading = "Invalid training job" if len(lines) == 1 else f"Invalid training job ({len(lines)} problems)"
        super().__init__("\n  ".join([f"{heading}; nothing was started:", *lines]))


class UnsupportedField(SpecError):
    """The spec is valid, but this backend cannot express one of its fields.

    :param backend: the backend's name.
    :param problem: the field, its value, what the backend can do, and the way out.
    """

    def __init__(self, backend: str, problem: Problem) -> None:
        self.backend = backend
        super().__init__([problem])
        self.args = (f"Backend {backend!r} cannot express this field; nothing was started:\n  {problem}",)


class BackendUnavailable(TrainJobError):
    """There is no backend to run the job on."""

    retryable = False


class SubmitError(TrainJobError):
    """The backend did not take the job.

    :param retryable: whether the same task, tried again unchanged, can be taken.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class ApiError(TrainJobError):
    """The Kubernetes API did not do what it was asked to. Says nothing about the job itself.

    :param message: what was asked, and what the API server answered.
    :param status: HTTP status; None where no answer came.
    :param reason: of the Status object, e.g. ``AlreadyExists``.
    :param retry_after: seconds, where the API server named them.
    :param answer: the API server's own words.
    :param causes: (field, what is wrong with it), where the API server named them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float | None = None,
        answer: str = "",
        causes: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.answer = answer
        self.causes = tuple(causes)
        super().__init__(message)


class ManageError(TrainJobError):
    """What was asked of a job that is there cannot be done.

    :param retryable: whether it can be done at another time.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class JobLost(TrainJobError):
    """The job that a handle names is no longer there, and neither is its outcome."""


class JobTimeout(TrainJobError):
    """The job was ended because the task's own time was up."""


class JobFailed(TrainJobError):
    """The job ended without success.

    :param diagnosis: which replica failed first, why, and whether a retry can help.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        super().__init__(diagnosis.text())
        self.retryable = diagnosis.retry_can_help != "no"
