"""Ends the job of a task that is over while nothing of the task is left to do it.

A task that is marked while it runs is told by its worker, and one that is deferred by its trigger. In between, and
while the triggerer is down, there is nobody to tell: Airflow removes the trigger before it ever ran. And a worker that
was killed in its last try has nobody to follow it. The API server, where marks are made, and the scheduler, which
misses the worker's heartbeat and ends runs, call this. They call it for every task of everybody: which are ours, the
database tells; no cluster is asked for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl
from pydantic import BaseModel

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    from airflow.utils.state import TaskInstanceState

    from airflow_trainer_provider.job.identity import Identity

_REASON = "the task is over: it was marked, or its last try was killed"
#: How long the scheduler, the API server or a worker is kept; what takes longer goes on beside them.
_END_SECONDS = 4


@hookimpl
def on_task_instance_failed(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked, or failed by itself; where it will be tried again, its next try wants the job."""
    # Airflow knows no previous state of a task that is marked, and of no other.
    if previous_state is None or task_instance.state == "failed":
        _end_jobs(task_instance)


@hookimpl
def on_task_instance_success(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked, or succeeded by itself; a job that it handed over goes on then."""
    if previous_state is None:
        _end_jobs(task_instance)


@hookimpl
def on_dag_run_failed(dag_run: DagRun) -> None:
    """The run failed or was timed out: what its tasks did not hand over with success ends with it."""
    _end_jobs_of_rows(dag_run.dag_id, dag_run.run_id, [ti for ti in dag_run.task_instances if ti.state != "success"])


def _end_jobs(ti: TaskInstance | RuntimeTaskInstance) -> None:
    # A worker has a message of the task in hand, and no database.
    if isinstance(ti, BaseModel):
        _end_jobs_of_operator(ti)
    else:
        _end_jobs_of_rows(ti.dag_id, ti.run_id, [ti])


def _end_jobs_of_operator(ti: RuntimeTaskInstance) -> None:
    from airflow_trainer_provider.operators.train_job import TrainJobOperator

    if isinstance(ti.task, TrainJobOperator) and ti.task.may_have_job:
        from airflow_trainer_provider.hooks.loop import run_aside

        run_aside(ti.task.hook.cancel_task(_identity(ti), _REASON, ti.task.handle), _END_SECONDS)


def _end_jobs_of_rows(dag_id: str, run_id: str, tis: Sequence[TaskInstance]) -> None:
    from airflow_trainer_provider.plugins.traces import traces

    found = traces(dag_id, run_id, {ti.task_id for ti in tis})
    ended = [trace.end_jobs(_identity(ti), _REASON) for ti in tis if (trace := found.get((ti.task_id, ti.map_index)))]
    if ended:
        from airflow_trainer_provider.hooks.loop import run_aside

        async def end_all() -> None:
            await asyncio.gather(*ended)

        run_aside(end_all(), _END_SECONDS)


def _identity(ti: TaskInstance | RuntimeTaskInstance) -> Identity:
    from airflow_trainer_provider.job.identity import Identity

    return Identity(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
    )
