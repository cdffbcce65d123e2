"""The last leg of every task that waited for a job: XCom, and the right exception."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_trainer_provider.errors import TrainJobError
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.handle import JobHandle


def fail(error: TrainJobError) -> NoReturn:
    """Fail the task: for good where a retry cannot cure it.

    :param error: what went wrong.
    """
    raise (AirflowException if error.retryable else AirflowFailException)(str(error)) from error


def hand_on(context: Context, hook: TrainerHook, handle: JobHandle) -> dict[str, Any]:
    """Hand the outcome of an ended job on.

    :param context: the task's, whose XCom gets ``return_value``, or ``failure`` before that is raised.
    :param hook: of the job's backend.
    :param handle: the job.
    :return: the job's summary.
    """
    from airflow_trainer_provider.errors import TrainJobError

    try:
        return _hand_on(context["ti"], hook, handle)
    except TrainJobError as error:
        fail(error)


def _hand_on(ti: Any, hook: TrainerHook, handle: JobHandle) -> dict[str, Any]:
    from airflow_trainer_provider.errors import JobFailed
    from airflow_trainer_provider.job.status import JobPhase

    status = asyncio.run(hook.backend.status(handle))
    if status.phase is not JobPhase.SUCCEEDED:
        diagnosis = asyncio.run(hook.diagnosis(handle, status))
        ti.xcom_push(key="failure", value=diagnosis.to_xcom())
        raise JobFailed(diagnosis)
    summary = asyncio.run(hook.summary(handle, status))
    if "result_error" in summary:
        hook.log.error("Training job %s succeeded, but %s", handle.name, summary["result_error"])
    if ti.task.do_xcom_push:
        # Not left to Airflow: the job counts as collected once its result is safe, and not before.
        ti.xcom_push(key="return_value", value=summary)
    asyncio.run(hook.backend.collected(handle))
    return summary
