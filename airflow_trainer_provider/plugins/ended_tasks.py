"""Ends the job of a task that is over while no process of the task is left to do it.

A worker ends the job of a task that is marked while it runs, and a trigger that of a deferred one. In between, and
while the triggerer is down, nothing of the task runs: Airflow removes the trigger before it ever ran. And nothing
follows a worker that was killed in its last try. The API server, where marks are made, and the scheduler, which misses
the worker's heartbeat and ends runs, call this for every task of every DAG. They are not kept waiting: what has to be
looked up and ended is queued, see :mod:`airflow_trainer_provider.plugins.endings`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl
from pydantic import BaseModel

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    from airflow.utils.state import TaskInstanceState

_FAILED = "the task has failed, or was marked failed"
_SUCCEEDED = "the task was marked success"
_RUN_OVER = "the run of its task is over"
#: Seconds for which a worker waits until the request to end a job has been taken. Airflow kills it after 20.
_WORKER_SECONDS = 15


@hookimpl
def on_task_instance_failed(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked, or failed by itself; where it will be tried again, its next try wants the job."""
    # Airflow knows no previous state of a task that is marked, and of no other.
    if previous_state is None or task_instance.state == "failed":
        _end_jobs(task_instance, _FAILED)


@hookimpl
def on_task_instance_success(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked, or succeeded by itself; a job that it released goes on then."""
    if previous_state is None:
        _end_jobs(task_instance, _SUCCEEDED)
    elif isinstance(task_instance, BaseModel) and hasattr(task_instance.task, "succeeded_job"):
        from airflow_trainer_provider.operators.outcome import settle

        settle(task_instance)


@hookimpl
def on_task_instance_skipped(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked. Airflow before 3.3 does not call this; there the end of the run ends the job."""
    if previous_state is None:
        from airflow_trainer_provider.hooks.task import SKIPPED

        _end_jobs(task_instance, SKIPPED)


@hookimpl
def on_dag_run_failed(dag_run: DagRun) -> None:
    """The run failed, timed out, or was marked: the jobs end that its tasks have neither finished nor released."""
    _end_jobs_of_run(dag_run)


@hookimpl
def on_dag_run_success(dag_run: DagRun) -> None:
    """The run succeeded although a task failed or was skipped, or was marked while a task waited for its retry."""
    _end_jobs_of_run(dag_run)


def _end_jobs(ti: TaskInstance | RuntimeTaskInstance, reason: str) -> None:
    # A worker has a message of the task in hand, and no database.
    if isinstance(ti, BaseModel):
        _end_jobs_of_operator(ti, reason)
        return
    from airflow_trainer_provider.plugins.endings import add
    from airflow_trainer_provider.plugins.requests import EndedTask

    add(EndedTask(ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number, reason))


def _end_jobs_of_run(dag_run: DagRun) -> None:
    from airflow_trainer_provider.plugins.endings import add
    from airflow_trainer_provider.plugins.requests import EndedRun

    # Not its task instances: the object may be detached from its session, as under dag.test().
    add(EndedRun(dag_run.dag_id, dag_run.run_id, _RUN_OVER))


def _end_jobs_of_operator(ti: RuntimeTaskInstance, reason: str) -> None:
    from airflow_trainer_provider.operators.train_job import TrainJobOperator

    if isinstance(ti.task, TrainJobOperator) and ti.task.may_have_job:
        from airflow_trainer_provider.hooks.loop import run_aside
        from airflow_trainer_provider.hooks.task import identity_of_task

        if ti.task.handle is None:
            # It has failed before it could submit a job: perhaps before its fields were rendered, or as the parameters
            # of its run are invalid, of which the context is made.
            with suppress(Exception):
                ti.task.look_up_place(ti.get_template_context())
        # That of the task itself knows its run: another one may have its id by now.
        run_aside(ti.task.end_jobs(ti.task.identity or identity_of_task(ti), reason), _WORKER_SECONDS)
