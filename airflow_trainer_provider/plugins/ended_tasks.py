"""Ends the job of a task that is over while nothing of the task is left to do it.

A task that is marked while it runs is told by its worker, and one that is deferred by its trigger. In between, and
while the triggerer is down, there is nobody to tell: Airflow removes the trigger before it ever ran. And a worker that
was killed in its last try has nobody to follow it. The API server, where marks are made, and the scheduler, which
misses the worker's heartbeat and ends runs, call this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    from airflow.utils.state import TaskInstanceState


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
    for ti in dag_run.task_instances:
        if ti.state != "success":
            _end_jobs(ti)


def _end_jobs(ti: TaskInstance | RuntimeTaskInstance) -> None:
    from airflow_trainer_provider.hooks.backends import BACKENDS
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.identity import Identity

    identity = Identity(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
    )
    for backend in BACKENDS:
        TrainerHook(backend).cancel_task_now(identity, "the task is over: it was marked, or its last try was killed")
