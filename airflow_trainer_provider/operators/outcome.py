"""The last leg of every task that waited for a job: XCom, and the right exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_trainer_provider.errors import TrainJobError
    from airflow_trainer_provider.frameworks.layout import Job
    from airflow_trainer_provider.hooks.found_jobs import Found
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.conclusion import Conclusion
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.kinds.manifest import ManifestJob


def fail(error: TrainJobError) -> NoReturn:
    """Fail the task: for good where a retry cannot cure it.

    :param error: what went wrong.
    """
    raise (AirflowException if error.retryable else AirflowFailException)(str(error)) from error


def raise_error(event: Mapping[str, Any]) -> None:
    """Fail the task where its trigger has met an error.

    :param event: of the trigger.
    """
    from airflow_trainer_provider.errors import TrainJobError

    if event["end"] == "error":
        error = TrainJobError(event["message"])
        error.retryable = event["retryable"]
        fail(error)


def concluded(event: Mapping[str, Any]) -> Conclusion:
    """What the trigger found out about an ended job.

    :param event: of a wait that was not timed out; an error in it fails the task.
    """
    from airflow_trainer_provider.job.conclusion import Conclusion

    raise_error(event)
    return Conclusion.parse(event)


def may_start_again(conclusion: Conclusion, job: Job | ManifestJob, starts: int) -> bool:
    """Whether a job failed by no fault of its own, and may be submitted once more.

    :param conclusion: what came of it.
    :param job: what it runs.
    :param starts: how many jobs this try of the task has had.
    """
    failure = conclusion.failure
    return failure is not None and failure.infrastructure and starts <= job.spec.run_policy.infrastructure_retries


def hand_on(context: Context, hook: TrainerHook, handle: JobHandle, conclusion: Conclusion) -> dict[str, Any]:
    """Hand the outcome of an ended job on, and then tell the job so, if it is ours.

    :param context: the task's, whose XCom gets ``return_value``, or ``failure`` before that is raised.
    :param hook: finds the job's backend.
    :param handle: the job.
    :param conclusion: what came of it.
    :return: the job's summary.
    """
    from airflow_trainer_provider.errors import JobFailed

    ti = context["ti"]
    if conclusion.failure:
        ti.xcom_push(key="failure", value=conclusion.failure.to_xcom())
        tell_collected(hook, handle)
        fail(JobFailed(conclusion.failure))
    summary = dict(conclusion.summary or {})
    if "result_error" in summary:
        hook.log.error("Training job %s succeeded, but %s", handle.name, summary["result_error"])
    if ti.task.do_xcom_push:
        # Not left to Airflow: the job counts as collected once its result is safe, and not before.
        ti.xcom_push(key="return_value", value=summary)
    tell_collected(hook, handle)
    return summary


def hand_on_found(context: Context, found: Sequence[Found], every: bool) -> Any:
    """Hand on the outcome of jobs that may be somebody else's, and tell them nothing.

    :param context: the task's, whose XCom gets ``failure`` before that is raised.
    :param found: the jobs; at least one.
    :param every: whether there may be several.
    :return: the summary of the job, or a list of them.
    """
    from airflow_trainer_provider.errors import JobFailed

    for failure in (each.conclusion.failure for each in found):
        if failure:
            context["ti"].xcom_push(key="failure", value=failure.to_xcom())
            fail(JobFailed(failure))
    summaries = [dict(each.conclusion.summary or {}) for each in found]
    return summaries if every else summaries[0]


def tell_collected(hook: TrainerHook, handle: JobHandle) -> None:
    """Tell a job that its outcome is safe, whatever may be left of it.

    :param hook: finds the job's backend.
    :param handle: the job.
    """
    from airflow_trainer_provider.errors import TrainJobError
    from airflow_trainer_provider.hooks.loop import run

    try:
        run(hook.collected(handle))
    except TrainJobError as error:
        # The outcome is what the task is for, and that is safe.
        hook.log.warning("Training job %s has ended, and could not be told so: %s", handle.name, error)
