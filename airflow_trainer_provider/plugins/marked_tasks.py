"""Ends the job of a task that somebody marked, where nothing else of the task is there to do it.

A task that runs is told by its worker, and one that is deferred by its trigger. In between, and while the triggerer
is down, there is nobody to tell: Airflow removes the trigger before it ever ran. The API server, where the mark is
made, calls this in every case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    from airflow.utils.state import TaskInstanceState


@hookimpl
def on_task_instance_failed(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task failed by itself, or was marked."""
    _end_if_marked(previous_state, task_instance)


@hookimpl
def on_task_instance_success(
    previous_state: TaskInstanceState | None, task_instance: TaskInstance | RuntimeTaskInstance
) -> None:
    """The task succeeded by itself, or was marked."""
    _end_if_marked(previous_state, task_instance)


def _end_if_marked(previous: TaskInstanceState | None, ti: TaskInstance | RuntimeTaskInstance) -> None:
    # Airflow knows no previous state of a task that is marked, and of no other.
    if previous is not None:
        return
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
        TrainerHook(backend).cancel_task_now(identity, "the task was marked")
