"""Asks Airflow about the task that a job belongs to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from airflow_trainer_provider.hooks.settings import load_settings
from airflow_trainer_provider.hooks.supervisor.ask import ask
from airflow_trainer_provider.job.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

#: States in which a task no longer needs its job. ``restarting`` is a task that was cleared while it ran; ``removed``
#: is a task that is no longer in its DAG.
OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed", "restarting"})
#: The reason for ending the job of a skipped task. Airflow does not report to the task's processes who skipped it.
SKIPPED = "the task was skipped, by hand or as the time of its run was over (dagrun_timeout)"
#: Seconds without a state after which a task counts as cleared: a scheduler that adopts tasks from another scheduler
#: resets their state for a moment.
_CLEARED_SECONDS = 10.0
_LOOK_SECONDS = 1.0
#: Seconds that the next try of a task may take until it has its job. Airflow 3.1 gives a trigger 30 s to clean up.
_NEXT_JOB_SECONDS = 15.0


class TaskInstanceLike(Protocol):
    """The attributes that all of Airflow's task instance classes have: the worker's, triggerer's and database's."""

    @property
    def dag_id(self) -> str: ...  # noqa: D102

    @property
    def run_id(self) -> str: ...  # noqa: D102

    @property
    def task_id(self) -> str: ...  # noqa: D102

    @property
    def map_index(self) -> int | None: ...  # noqa: D102

    @property
    def try_number(self) -> int: ...  # noqa: D102


def task_instance_of(identity: Identity) -> dict[str, Any]:
    """The fields that identify a task instance in requests for Airflow's XCom.

    :param identity: the identity of a try of the task.
    """
    return identity.model_dump(include={"dag_id", "task_id", "run_id", "map_index"})


class DagRunLike(Protocol):
    """The attributes of a DAG run that a worker knows."""

    @property
    def start_date(self) -> datetime | None: ...  # noqa: D102


def identity_of_task(ti: TaskInstanceLike, run: DagRunLike | None = None) -> Identity:
    """The identity by which the jobs of a task are found.

    :param ti: the task instance.
    :param run: the task's run. It is needed to submit a job: an earlier run with the same ID may have left one.
    """
    return Identity(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
        deployment=load_settings().deployment,
        max_tries=getattr(ti, "max_tries", None),
        run_started_at=run.start_date if run else None,
    )


async def state_if_over(identity: Identity) -> str | None:
    """Ask Airflow whether a task is over, so that its job may be ended.

    A process that receives SIGTERM, or a cancelled trigger, does not know the reason. The task may have been marked or
    cleared. Or the process has lost contact, and the task waits for its job elsewhere: in another triggerer, or in its
    next try.

    :param identity: the task.
    :return: the state of the task, for messages; None if the task continues, or will be tried again.
    :raises Exception: Airflow does not answer. The caller must not end the job then.
    """
    loop = asyncio.get_running_loop()
    cleared_at = loop.time() + _CLEARED_SECONDS
    while True:
        state = await state_of(identity)
        if state is not None:
            return state if state in OVER else None
        if loop.time() >= cleared_at:
            return "cleared"
        await asyncio.sleep(_LOOK_SECONDS)


def why_ended(state: str) -> str:
    """The reason for ending the job of a task that is over, for the job's status.

    :param state: the task's state, as :func:`state_if_over` returns it.
    """
    return SKIPPED if state == "skipped" else f"the task is {state}"


async def has_another_job(identity: Identity, uid: str) -> bool:
    """Ask Airflow whether a task that is not over has another job by now, such as after it was cleared.

    The next try handles the job of an earlier try, but finds it only in its own place: in the cluster and the namespace
    of the task's current fields.

    :param identity: the task.
    :param uid: the uid of the job that the task had.
    :raises Exception: Airflow does not answer.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _NEXT_JOB_SECONDS
    while loop.time() < end:
        handle = await _handle_of(identity)
        if handle is not None and handle.get("uid") != uid:
            return True
        # The task still waits for this job. After a clear, XCom has no handle from the start of the next try on.
        if handle is not None and await state_of(identity) == "deferred":
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def has_succeeded(identity: Identity) -> bool:
    """Ask Airflow whether it has recorded the success of a task.

    :param identity: the task.
    :raises Exception: Airflow does not answer.
    """
    return await state_of(identity) == "success"


async def _handle_of(identity: Identity) -> Mapping[str, Any] | None:
    from airflow.sdk.bases.xcom import BaseXCom

    found = await ask(BaseXCom.get_one, key="job", **task_instance_of(identity))
    return found if isinstance(found, dict) else None


async def state_of(identity: Identity) -> str | None:
    """The state of a task; ``removed`` if Airflow no longer has the task instance.

    :param identity: the task.
    :raises Exception: Airflow does not answer.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states: Mapping[str, Mapping[str, str | None]] = await ask(
        RuntimeTaskInstance.get_task_states,
        dag_id=identity.dag_id,
        task_ids=[identity.task_id],
        run_ids=[identity.run_id],
        map_index=identity.map_index,
    )
    name = identity.task_id if identity.map_index < 0 else f"{identity.task_id}_{identity.map_index}"
    # A task instance that is not in the database was deleted with its run or its DAG.
    return states.get(identity.run_id, {}).get(name, "removed")
