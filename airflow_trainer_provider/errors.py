"""The errors of training jobs: each names the object, the reason and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.text.printable import printable
from airflow_trainer_provider.text.redaction import redacted, redacted_text

#: The maximum number of characters of a value in an error.
_SHOWN = 300


class TrainJobError(Exception):
    """Base class of the provider's own errors. The message is printable and contains no secret."""

    #: Whether a retry of the unchanged task can end differently.
    retryable = True

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted_text(printable(message)))


@dataclass(frozen=True)
class Problem:
    """One problem of the user's spec.

    :param field: the field's path as the user writes it, e.g. ``replicas.worker.env``.
    :param value: the value that was given; None if the field is missing.
    :param allowed: the values that are accepted.
    :param fix: what to do instead.
    """

    field: str
    value: Any
    allowed: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field}: got {_shown(redacted(self.value, self.field))}; allowed: {self.allowed}. {self.fix}"


def _shown(value: Any) -> str:
    """A value as an error shows it; a long value is truncated."""
    if isinstance(value, int) and value.bit_length() > _SHOWN:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


class SpecError(TrainJobError):
    """The spec is invalid. Nothing was created.

    :param problems: all problems, not only the first one.
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
    :param problem: the field, its value, what the backend supports, and the remedy.
    """

    def __init__(self, backend: str, problem: Problem) -> None:
        self.backend = backend
        super().__init__([problem])
        text = f"Backend {backend!r} cannot express this field; nothing was started:\n  {problem}"
        self.args = (redacted_text(printable(text)),)


@dataclass(frozen=True)
class Violation:
    """A value that a policy of the administrator does not allow.

    :param field: the field's path as the user writes it.
    :param value: the field's value; None if it has none.
    :param rule: what the policy demands.
    :param reason: the reason that the policy gives.
    :param file: the file with the policy.
    """

    field: str
    value: Any
    rule: str
    reason: str
    file: str

    def __str__(self) -> str:
        got = "no value" if self.value is None else f"got {_shown(redacted(self.value, self.field))}"
        return f"{self.field}: {got}; allowed: {self.rule}. Reason: {self.reason} (policy {self.file})"


class PolicyViolation(TrainJobError):
    """The administrator's policies do not allow the job. Nothing was created.

    :param violations: all violations, not only the first one.
    """

    retryable = False

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        lines = [str(violation) for violation in self.violations]
        count = "" if len(lines) == 1 else f" ({len(lines)} violations)"
        super().__init__(
            "\n  ".join([f"Not allowed by the administrator's policies{count}; nothing was started:", *lines])
        )


class BackendUnavailable(TrainJobError):
    """There is no backend that can run the job."""

    retryable = False


class ConnectionUnreadable(TrainJobError):
    """Airflow, or a secrets backend, did not answer when a connection was read. The connection may exist.

    :param conn_id: the connection's ID.
    :param why: the component that did not answer, and its error.
    """

    def __init__(self, conn_id: str, why: str) -> None:
        super().__init__(
            f"Connection {conn_id!r} cannot be read at the moment ({why}). See whether Airflow's API server and its "
            "secrets backends answer."
        )


class SubmitError(TrainJobError):
    """The backend did not accept the job.

    :param retryable: whether a retry of the unchanged task can succeed.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class ApiError(TrainJobError):
    """A request to the Kubernetes API failed. The error implies nothing about the state of the job.

    :param message: the request, and the API server's answer.
    :param status: the HTTP status; None if there was no answer.
    :param reason: the reason in the Status object, e.g. ``AlreadyExists``.
    :param retry_after: the seconds after which the API server asks the client to retry; None if it names none.
    :param answer: the message in the API server's answer.
    :param causes: (field, problem) for each field that the API server names.
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
        #: The size of the object as JSON, in bytes, if the request was to create one.
        self.sent_bytes: int | None = None
        super().__init__(message)

    @property
    def is_not_found(self) -> bool:
        """Whether the object does not exist."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether the object already exists, or has changed since it was read."""
        return self.status == 409


class ManageError(TrainJobError):
    """An operation on an existing job is not possible.

    :param retryable: whether the operation may be possible later.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class JobLost(TrainJobError):
    """The job of a handle no longer exists, and its outcome is lost.

    :param retryable: False if the job has ended, so that a retry of the task would train a second time.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class NoValue(TrainJobError):
    """The job of a function has succeeded, but the function's value is not available. A retry would train again."""

    retryable = False


class JobTimeout(TrainJobError):
    """The deadline of a wait has passed before the job ended. The job itself continues."""
