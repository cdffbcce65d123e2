"""The actions of a viewer on a job: suspend it, resume it, and stop it together with its task."""

from __future__ import annotations

import json
from concurrent.futures import CancelledError
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import HTTPException, status

from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.plugins.view.database import TaskKey, read_task
from airflow_trainer_provider.plugins.view.model.facts import can_be_suspended, why_not
from airflow_trainer_provider.plugins.view.model.state import JobState, state_of

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

    from airflow_trainer_provider.job.handle import JobHandle

#: Seconds within which a cluster has to accept a request.
_SECONDS = 20.0
#: For how many seconds the read of a connection is retried.
_READ_SECONDS = 5.0


def act(action: str, key: TaskKey, uid: str, user: BaseUser) -> str:
    """Apply an action to the job of a task instance. Blocks while the database and the cluster answer.

    :param action: ``suspend``, ``resume`` or ``stop``.
    :param key: the task instance.
    :param uid: the uid of the job that the viewer has seen.
    :param user: the user who sends the request.
    :return: a sentence on what was done.
    """
    state = _checked(action, key, uid)
    handle = _handle(state)
    # Before the action, so that the audit log also has a request that fails.
    _note(action, key, handle, user)
    if action == "stop":
        return _stop(key)
    return _manage(action, handle, Identity(**key._asdict(), try_number=state.try_number))


def _checked(action: str, key: TaskKey, uid: str) -> JobState:
    records = read_task(key)
    if records is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such task instance.")
    state = state_of(records, None, datetime.now(timezone.utc))
    if not state.is_training:
        raise HTTPException(status.HTTP_409_CONFLICT, "The task runs no training.")
    if state.job and state.job.get("uid") != uid:
        raise HTTPException(status.HTTP_409_CONFLICT, "The task has another job by now. Look at it first.")
    why = why_not(action, state)
    # The database may lag behind the cluster, which decides for itself whether a job can be suspended or resumed.
    if why and not (state.is_active and action != "stop" and can_be_suspended(state)):
        raise HTTPException(status.HTTP_409_CONFLICT, why)
    return state


def _handle(state: JobState) -> JobHandle:
    from airflow_trainer_provider.errors import SpecError
    from airflow_trainer_provider.job.handle import JobHandle

    try:
        return JobHandle.parse(dict(state.job))
    except SpecError as error:
        raise HTTPException(status.HTTP_409_CONFLICT, "XCom holds no handle of a job.") from error


def _note(action: str, key: TaskKey, handle: JobHandle, user: BaseUser) -> None:
    """Write the action to Airflow's audit log."""
    name = user.get_name()
    extra = json.dumps({"job": handle.name, "uid": handle.uid, "backend": handle.backend, "method": "POST"})
    event = f"trainer_{action}_job"
    with create_session(scoped=False) as session:
        session.add(Log(event, None, name, name, extra, **key._asdict()))


def _manage(action: str, handle: JobHandle, identity: Identity) -> str:
    from airflow_trainer_provider.errors import ManageError, TrainJobError
    from airflow_trainer_provider.hooks.loop import run
    from airflow_trainer_provider.text.redaction import redacted_text

    try:
        return run(_managed(action, handle, identity), _SECONDS)
    except TrainJobError as error:
        is_away = error.retryable and not isinstance(error, ManageError)
        code = status.HTTP_503_SERVICE_UNAVAILABLE if is_away else status.HTTP_409_CONFLICT
        raise HTTPException(code, redacted_text(str(error))) from error
    except (TimeoutError, CancelledError) as error:
        detail = f"The cluster has not answered within {_SECONDS:g} s. The job may still {action}."
        raise HTTPException(status.HTTP_504_GATEWAY_TIMEOUT, detail) from error


async def _managed(action: str, handle: JobHandle, identity: Identity) -> str:
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.plugins.traces import read_connection

    hook = TrainerHook(handle.backend, read_connection=read_connection)
    backend = await hook.backend_of(handle, timeout=_READ_SECONDS)
    # Users can edit XCom: its handle may belong to the job of another task, which this viewer may not change.
    own = await backend.find(identity.model_copy(update={"deployment": hook.settings.deployment}))
    if handle.uid not in [each.uid for each in own]:
        raise HTTPException(status.HTTP_409_CONFLICT, "The cluster has no such job of this task; it may have ended.")
    if action == "suspend":
        return await backend.suspend(handle, wait=False)
    return await backend.resume(handle)


def _stop(key: TaskKey) -> str:
    """Mark the task as failed, as Airflow's own API does. The plugin's listener then ends the job."""
    from airflow.api_fastapi.core_api.datamodels.task_instances import BulkTaskInstanceBody
    from airflow.api_fastapi.core_api.services.public.task_instances import _patch_task_instance_state
    from airflow.models.dagbag import DBDagBag

    index = key.map_index
    body: Any = BulkTaskInstanceBody.model_validate({"task_id": key.task_id, "map_index": index, "new_state": "failed"})
    with create_session(scoped=False) as session:
        dag = DBDagBag().get_latest_version_of_dag(key.dag_id, session=session)
        if dag is None or not dag.has_task(key.task_id):
            raise HTTPException(status.HTTP_404_NOT_FOUND, "The task is not part of the DAG any more.")
        _patch_task_instance_state(key.task_id, key.run_id, dag, body, {"new_state": body.new_state}, session)
    return "The task was marked as failed; its job is being ended."
