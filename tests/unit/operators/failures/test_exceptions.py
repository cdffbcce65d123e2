"""Which exception Airflow gets for which failure, and what a retry policy of the task's own changes."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_trainer_provider import errors
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.diagnosis.failed import JobFailed
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.operators.failures import exceptions
from airflow_trainer_provider.operators.failures.exceptions import failure_of, permanent
from airflow_trainer_provider.operators.outcome import fail
from tests.airflow_version import AIRFLOW_V_3_3

PROBLEM = errors.Problem("framework", "pytroch", "pytorch", "Correct it.")
HOPELESS = JobFailed(Diagnosis("j", "failed", "OOMKilled", "It broke.", retry_can_help="no", kind="memory"))


def _failed(reason, message=None):
    status = JobStatus(phase=JobPhase.FAILED, reason=reason, message=message, queued_at="2026-01-01T00:00:00Z")
    return JobFailed(diagnose("j", get_framework("jax"), status, []))


@pytest.mark.parametrize(
    ("error", "name", "retry_can_help"),
    [
        (_failed("OOMKilled"), "OutOfMemory", "no"),
        (_failed("Evicted", "Usage of EmptyDir volume x exceeds the limit"), "OutOfDisk", "no"),
        (_failed("NodeLost"), "InfrastructureFailure", "yes"),
        (_failed("FailedCreate", "exceeded quota"), "InfrastructureFailure", "yes"),
        (_failed("ImagePullBackOff"), "ImageProblem", "no"),
        (_failed("ImagePullBackOff", "toomanyrequests"), "InfrastructureFailure", "unknown"),
        (_failed("Error"), "UserError", "unknown"),
        (_failed("PermanentExitCode"), "UserError", "no"),
        (_failed("CommandNotFound"), "UserError", "no"),
        (_failed("FailedCreate"), "Rejected", "no"),
        (_failed("StartupTimeout"), "NotStarted", "unknown"),
        (_failed("DeadlineExceeded"), "DeadlinePassed", "unknown"),
        (_failed("BackoffLimitExceeded"), "TrainJobFailure", "unknown"),
        # From a triggerer of an earlier version, which knows no kinds.
        (
            JobFailed(Diagnosis("j", "failed", "NodeLost", "Lost.", infrastructure=True)),
            "InfrastructureFailure",
            "unknown",
        ),
        (errors.SpecError([PROBLEM]), "Rejected", "no"),
        (errors.UnsupportedField("native", PROBLEM), "Rejected", "no"),
        (
            errors.PolicyViolation([errors.Violation("num_nodes", 3, "at most 2", "Because.", "a.yaml")]),
            "Rejected",
            "no",
        ),
        (errors.SubmitError("Later."), "Rejected", "unknown"),
        (errors.BackendUnavailable("None."), "Rejected", "no"),
        (errors.JobLost("Gone."), "TrainJobFailure", "unknown"),
    ],
)
def test_each_kind_of_failure_has_an_exception_of_its_own(error, name, retry_can_help):
    failure = failure_of(error)

    assert type(failure) is getattr(exceptions, name)
    assert (str(failure), failure.retry_can_help) == (str(error), retry_can_help)
    assert failure.failure == (error.diagnosis.to_xcom() if isinstance(error, JobFailed) else None)
    with pytest.raises(AirflowException) as caught:
        fail(error)
    assert isinstance(caught.value, type(failure))
    assert isinstance(caught.value, AirflowFailException) is (retry_can_help == "no")
    assert caught.value.__cause__ is error


def test_one_that_is_permanent_is_called_the_same_and_says_the_same():
    failure = failure_of(HOPELESS)

    final = permanent(failure)

    assert (type(final).__module__, type(final).__qualname__) == (type(failure).__module__, type(failure).__qualname__)
    assert vars(final) == vars(failure)


class _Policy:
    def __init__(self, action):
        self.action, self.asked = action, []

    def evaluate(self, exception, try_number, max_tries, context):
        self.asked.append((type(exception).__name__, try_number, max_tries))
        if self.action is None:
            raise ValueError("no decision")
        return SimpleNamespace(action=SimpleNamespace(value=self.action))


@pytest.mark.parametrize(("action", "again"), [("retry", True), ("fail", False), ("default", False), (None, False)])
def test_the_tasks_own_retry_policy_may_try_again_what_no_retry_cures(action, again):
    policy = _Policy(action)
    ti = SimpleNamespace(task=SimpleNamespace(retry_policy=policy), try_number=1, max_tries=3)

    with pytest.raises(exceptions.OutOfMemory) as caught:
        fail(HOPELESS, {"ti": ti})

    assert isinstance(caught.value, AirflowFailException) is not again
    assert policy.asked == [("OutOfMemory", 1, 3)]


@pytest.mark.skipif(not AIRFLOW_V_3_3, reason="Airflow has retry policies since 3.3")
def test_the_policy_that_is_shipped_decides_as_tasks_do_without_one():
    from airflow_trainer_provider.operators.failures.retry_policy import TrainJobRetryPolicy

    policy = TrainJobRetryPolicy(infrastructure_delay=timedelta(seconds=5))

    def decided(error):
        decision = policy.evaluate(error, 1, 3)
        return decision.action.value, decision.retry_delay

    assert decided(failure_of(HOPELESS)) == ("fail", None)
    assert decided(failure_of(_failed("NodeLost"))) == ("retry", timedelta(seconds=5))
    assert decided(failure_of(_failed("Error"))) == ("default", None)
    assert decided(ValueError("another")) == ("default", None)
    copy = TrainJobRetryPolicy.deserialize(policy.serialize())
    assert copy.infrastructure_delay == policy.infrastructure_delay
    assert TrainJobRetryPolicy.deserialize(TrainJobRetryPolicy().serialize()).infrastructure_delay is None
