"""Pushes XComs after a job's end, and raises the exception for a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_trainer_provider.operators.failures.decision import retries
from airflow_trainer_provider.operators.failures.exceptions import failure_of, permanent
from airflow_trainer_provider.operators.records.asset_events import add_to_asset_events
from airflow_trainer_provider.operators.records.stats import emit_stats

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    from airflow_trainer_provider.errors import TrainJobError
    from airflow_trainer_provider.hooks.found_jobs import Found
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.outcome import JobOutcome


def fail(error: TrainJobError, context: Context | None = None) -> NoReturn:
    """Fail the task. If no retry can help, fail it for good, unless the task's own retry policy decides otherwise.

    :param error: what went wrong.
    :param context: the task's context; None skips the retry policy.
    """
    failure = failure_of(error)
    if not error.retryable and (context is None or not retries(failure, context)):
        failure = permanent(failure)
    raise failure from error


def raise_error(event: Mapping[str, Any]) -> None:
    """Fail the task if its trigger has reported an error.

    :param event: the trigger's event.
    """
    from airflow_trainer_provider.errors import TrainJobError

    if event["end"] == "error":
        error = TrainJobError(event["message"])
        error.retryable = event["retryable"]
        fail(error)


def outcome_of(event: Mapping[str, Any]) -> JobOutcome:
    """The outcome of an ended job, as the trigger reports it.

    :param event: the event of a wait that has not timed out; an error in it fails the task.
    """
    from airflow_trainer_provider.job.outcome import JobOutcome

    raise_error(event)
    return JobOutcome.parse(event)


def hand_on(context: Context, hook: TrainerHook, handle: JobHandle, outcome: JobOutcome) -> dict[str, Any]:
    """Publish the outcome of an ended job: to XCom, to metrics and to asset events.

    A failed job is acknowledged at once. A job that succeeded is acknowledged after Airflow has recorded the success
    of the task, see :func:`settle`: if the task is lost before that, the next try reads the result from the job.

    :param context: the task's context. XCom gets ``failure`` before the exception is raised.
    :param hook: finds the job's backend.
    :param handle: the job.
    :param outcome: the job's outcome.
    :return: the job's summary, which Airflow pushes as ``return_value``.
    """
    from airflow_trainer_provider.hooks.masking import masked
    from airflow_trainer_provider.job.diagnosis.failed import JobFailed

    ti = context["ti"]
    outcome = outcome.masked(masked)
    ti.task.outcome = outcome
    if outcome.failure:
        ti.xcom_push(key="failure", value=outcome.failure.to_xcom())
        acknowledge(hook, handle)
        emit_stats(ti, handle, outcome)
        fail(JobFailed(outcome.failure), context)
    summary = dict(outcome.summary or {})
    if "result_error" in summary:
        hook.log.error("Training job %s succeeded, but %s", handle.name, summary["result_error"])
    emit_stats(ti, handle, outcome)
    add_to_asset_events(context, handle, outcome)
    ti.task.succeeded_job = (hook, handle)
    return summary


def hand_on_sensed(context: Context, hook: TrainerHook, handle: JobHandle, outcome: JobOutcome) -> dict[str, Any]:
    """Publish the outcome of a job that another task submitted, as :func:`hand_on` does.

    The task fails if the job ran a function and has no value of it.

    :param context: the task's context. XCom gets ``summary`` if there is no value.
    :param hook: finds the job's backend.
    :param handle: the job.
    :param outcome: the job's outcome.
    :return: the job's summary.
    """
    summary = hand_on(context, hook, handle, outcome)
    if problem := _no_value(summary):
        context["ti"].xcom_push(key="summary", value=summary)
        fail_without_value(context["ti"], problem)
    return summary


def fail_without_value(ti: Any, problem: str) -> NoReturn:
    """Fail a task whose job has succeeded without a value of its function. A retry would read the same from the job.

    :param ti: the task instance, after :func:`hand_on`, with the ``summary`` in XCom.
    :param problem: why there is no value.
    """
    hook, handle = ti.task.succeeded_job
    del ti.task.succeeded_job
    acknowledge(hook, handle)
    _fail_without_value(handle, problem)


def settle(ti: RuntimeTaskInstance) -> None:
    """Acknowledge the job of a task, once Airflow has recorded the success of the task.

    :param ti: the task instance, in the process that has run it.
    """
    from airflow_trainer_provider.hooks.loop import run
    from airflow_trainer_provider.hooks.task import has_succeeded, identity_of_task
    from airflow_trainer_provider.operators.records.place import forget_place

    task: Any = ti.task
    hook, handle = task.succeeded_job
    try:
        recorded = run(has_succeeded(identity_of_task(ti)))
    except Exception as error:
        hook.log.warning("Airflow does not say whether the task has succeeded (%s). Its job is kept.", error)
        return
    if recorded:
        acknowledge(hook, handle)
        forget_place(ti.get_template_context())


def hand_on_found(context: Context, found: Sequence[Found], every: bool) -> Any:
    """Publish the outcome of jobs that may have been created outside Airflow. The jobs are not acknowledged.

    :param context: the task's context. XCom gets ``failure`` before the exception is raised, or ``summary`` if a
        function has no value.
    :param found: the jobs; at least one.
    :param every: whether the sensor waits for every job that it finds.
    :return: the summary of the job; with ``every``, a list of summaries.
    """
    from airflow_trainer_provider.hooks.masking import masked
    from airflow_trainer_provider.job.diagnosis.failed import JobFailed

    outcomes = [each.outcome.masked(masked) for each in found]
    for failure in (each.failure for each in outcomes):
        if failure:
            context["ti"].xcom_push(key="failure", value=failure.to_xcom())
            fail(JobFailed(failure), context)
    summaries = [dict(each.summary or {}) for each in outcomes]
    pushed = summaries if every else summaries[0]
    for each, summary in zip(found, summaries, strict=True):
        if problem := _no_value(summary):
            context["ti"].xcom_push(key="summary", value=pushed)
            _fail_without_value(each.handle, problem)
    return pushed


def _no_value(summary: Mapping[str, Any]) -> str | None:
    """Why the job's function has no value; None if it has one, or if the summary does not name a function."""
    return summary.get("result_error") if "function" in summary else None


def _fail_without_value(handle: JobHandle, problem: str) -> NoReturn:
    from airflow_trainer_provider.errors import NoValue

    fail(NoValue(f"Training job {handle.name} has succeeded, but {problem}. Its summary is in XCom."))


def acknowledge(hook: TrainerHook, handle: JobHandle) -> None:
    """Acknowledge a job: its outcome is safe, and the job may be deleted. An error is logged, not raised.

    :param hook: finds the job's backend.
    :param handle: the job.
    """
    from airflow_trainer_provider.errors import TrainJobError
    from airflow_trainer_provider.hooks.loop import run

    try:
        run(hook.acknowledge(handle))
    except TrainJobError as error:
        # The task has the outcome, so this error does not fail it.
        hook.log.warning("Training job %s has ended, and its outcome could not be acknowledged: %s", handle.name, error)
