"""A listener that ends the job of a task that is over, if no process of the task is left to do it.

If a task is marked while it runs, its worker ends the job; if it is marked while it is deferred, its trigger does. In
between, and while the triggerer is down, the task has no process: Airflow removes the trigger before it ever ran. There
is also no process after a worker was killed in the task's last try. Airflow calls this listener for every task of every
DAG, in the API server, where tasks are marked, and in the scheduler, which detects missing heartbeats and ends runs.
The listener does not block them: lookups and ends are queued, see :mod:`airflow_trainer_provider.plugins.endings`.
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
#: Seconds for which a worker waits until the request to end a job has been accepted. Airflow kills it after 20 s.
_WORKER_SECONDS = 15


@hookimpl
def on_task_instance_failed(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked, or failed by itself. If it will be tried again, its next try needs the job."""
    # Airflow passes no previous state if and only if the task was marked.
    if previous_state is None or task_instance.state == "failed":
        _end_jobs(task_instance, _FAILED)


@hookimpl
def on_task_instance_success(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked, or succeeded by itself. In the latter case a released job continues."""
    if previous_state is None:
        _end_jobs(task_instance, _SUCCEEDED)
    elif isinstance(task_instance, BaseModel) and hasattr(task_instance.task, "succeeded_job"):
        from airflow_trainer_provider.operators.outcome import settle

        settle(task_instance)


@hookimpl
def on_task_instance_skipped(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task was marked. Airflow before 3.3 does not call this; there the job is ended at the end of the run."""
    if previous_state is None:
        from airflow_trainer_provider.hooks.task import SKIPPED

        _end_jobs(task_instance, SKIPPED)


@hookimpl
def on_dag_run_failed(dag_run: DagRun) -> None:
    """The run failed, timed out, or was marked: end the jobs that its tasks have neither acknowledged nor released."""
    _end_jobs_of_run(dag_run)


@hookimpl
def on_dag_run_success(dag_run: DagRun) -> None:
    """The run succeeded although a task failed or was skipped, or was marked while a task waited for its retry."""
    _end_jobs_of_run(dag_run)


def _end_jobs(ti: TaskInstance | RuntimeTaskInstance, reason: str) -> None:
    # A worker has the task as a pydantic model, and no access to the database.
    if isinstance(ti, BaseModel):
        _end_jobs_of_operator(ti, reason)
        return
    from airflow_trainer_provider.plugins.endings import add
    from airflow_trainer_provider.plugins.requests import EndedTask

    add(EndedTask(ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number, reason))


def _end_jobs_of_run(dag_run: DagRun) -> None:
    from airflow_trainer_provider.plugins.endings import add
    from airflow_trainer_provider.plugins.requests import EndedRun

    # The task instances are not read here: the object may be detached from its session, as in dag.test().
    add(EndedRun(dag_run.dag_id, dag_run.run_id, _RUN_OVER))


def _end_jobs_of_operator(ti: RuntimeTaskInstance, reason: str) -> None:
    from airflow_trainer_provider.operators.train_job import TrainJobOperator

    if isinstance(ti.task, TrainJobOperator) and ti.task.may_have_job:
        from airflow_trainer_provider.hooks.loop import run_aside
        from airflow_trainer_provider.hooks.task import identity_of_task

        if ti.task.handle is None:
            # The task failed before it could submit a job, possibly before its fields were rendered. If the parameters
            # of its run are invalid, even the context cannot be created.
            with suppress(Exception):
                ti.task.look_up_place(ti.get_template_context())
        # The task's own identity includes its run, which matters if another run has the same ID by now.
        run_aside(ti.task.end_jobs(ti.task.identity or identity_of_task(ti), reason), _WORKER_SECONDS)
