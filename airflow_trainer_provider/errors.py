"""The errors of training jobs: each names the object, the reason and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.text.printable import printable
from airflow_trainer_provider.text.redaction import redacted, redacted_text

#: The most characters of a value in an error.
_SHOWN = 300


class TrainJobError(Exception):
    """Base of every error that this provider raises on purpose. Its message is printable and contains no secret."""

    #: Whether the same task, tried again unchanged, can end differently.
    retryable = True

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted_text(printable(message)))


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
        return f"{self.field}: got {_shown(redacted(self.value, self.field))}; allowed: {self.allowed}. {self.fix}"


def _shown(value: Any) -> str:
    """A value in an error: one that is long is cut."""
    if isinstance(value, int) and value.bit_length() > _SHOWN:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


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
        text = f"Backend {backend!r} cannot express this field; nothing was started:\n  {problem}"
        self.args = (redacted_text(printable(text)),)


@dataclass(frozen=True)
class Violation:
    """A value that a policy of the administrator does not allow.

    :param field: the field's path as the user writes it.
    :param value: that it has; None for no value.
    :param rule: what the policy asks for.
    :param reason: the policy's.
    :param file: that holds the policy.
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

    :param violations: all of them, not just the first.
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
    """There is no backend to run the job on."""

    retryable = False


class ConnectionUnreadable(TrainJobError):
    """Airflow, or a secrets backend, did not answer when a connection was read. It may exist.

    :param conn_id: of the connection.
    :param why: what did not answer, and how.
    """

    def __init__(self, conn_id: str, why: str) -> None:
        super().__init__(
            f"Connection {conn_id!r} cannot be read at the moment ({why}). See whether Airflow's API server and its "
            "secrets backends answer."
        )


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
        #: Bytes of the object as JSON, where one was to be created.
        self.sent_bytes: int | None = None
        super().__init__(message)

    @property
    def is_not_found(self) -> bool:
        """Whether there is no such object."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether the object is there already, or has changed since it was read."""
        return self.status == 409


class ManageError(TrainJobError):
    """What was asked of a job that is there cannot be done.

    :param retryable: whether it can be done at another time.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class JobLost(TrainJobError):
    """The job that a handle names is no longer there, and neither is its outcome.

    :param retryable: False where the job has ended, so that the same task, tried again, would train a second time.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class NoValue(TrainJobError):
    """The job of a function has succeeded, and the function's value cannot be had: another try would train again."""

    retryable = False


class JobTimeout(TrainJobError):
    """The job was ended because the task's own time was up."""
