"""A job as a row of the Training page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow_trainer_provider.plugins.view.jobs.entry import JobEntry
from airflow_trainer_provider.plugins.view.model.facts import actions_of
from airflow_trainer_provider.plugins.view.model.progress import progress_of
from airflow_trainer_provider.plugins.view.model.records import TaskRecords
from airflow_trainer_provider.plugins.view.model.sentence import sentence_of
from airflow_trainer_provider.plugins.view.model.state import JobState, state_of
from airflow_trainer_provider.plugins.view.model.values import iso, mapping, text, whole


def row_of(entry: JobEntry, records: TaskRecords, may_edit: bool, now: datetime) -> dict[str, Any]:
    """The row of a job, as JSON values.

    :param entry: the job.
    :param records: the records of the job's task instance.
    :param may_edit: whether the viewer may edit the task instance.
    :param now: the current time.
    """
    state = state_of(records, None, now)
    progress = progress_of(state, None)
    return {
        "id": entry.id,
        "name": text(state.job.get("name")),
        "uid": text(state.job.get("uid")),
        "dag_id": records.dag_id,
        "task_id": records.task_id,
        "run_id": records.run_id,
        "map_index": records.map_index,
        "framework": text(state.job.get("framework")),
        "backend": text(state.job.get("backend")),
        "namespace": text(state.request.get("namespace")),
        "queue": state.queue,
        "owner": entry.owners or None,
        "nodes": entry.nodes or None,
        "gpus": entry.gpus,
        "state": state.phase,
        "is_active": state.is_active,
        "stale_since": iso(state.silent_since),
        "note": sentence_of(state).summary,
        "progress": _progress(progress),
        "position": _position(state, mapping(records.xcoms.get("status"))),
        "queued_at": iso(state.queued_at),
        "started_at": iso(state.started_at),
        "finished_at": iso(state.finished_at),
        "actions": actions_of(state, may_edit),
    }


def _progress(progress: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if progress is None:
        return None
    return {name: progress[name] for name in ("step", "total_steps", "percent", "eta", "last_checkpoint")}


def _position(state: JobState, status: Mapping[str, Any]) -> dict[str, Any] | None:
    """The job's position in its queue; None if it is unknown."""
    queue = mapping(status.get("queue"))
    position = whole(queue.get("position"))
    if state.phase != "queued" or position is None:
        return None
    estimate = mapping(queue.get("estimate"))
    starts = (iso(estimate.get("earliest")), iso(estimate.get("latest")))
    return {
        "queue": text(queue.get("name")) or state.queue,
        "position": position,
        "length": whole(queue.get("length")),
        "earliest": starts[0],
        "latest": starts[1],
    }
