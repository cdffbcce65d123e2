"""The data in the index by which jobs are searched, counted and sorted. It is the same for all viewers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_trainer_provider.plugins.view.model.records import TaskRecords
from airflow_trainer_provider.plugins.view.model.sentence import is_stuck, sentence_of
from airflow_trainer_provider.plugins.view.model.state import JobState, state_of
from airflow_trainer_provider.plugins.view.model.values import moment, text, whole

_UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True)
class JobEntry:
    """A job.

    :param id: the ID of the job's task instance.
    :param phase: one of :class:`~airflow_trainer_provider.job.status.JobPhase`; None if it is unknown.
    :param owners: the owners of the job's DAG.
    :param searched: the text that a search matches, in lower case.
    :param is_active: whether the job may still change.
    :param is_stuck: whether the job waits for a reason that does not pass by itself.
    :param restarted_at: the last restart of one of its replicas; None if there was none.
    """

    id: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    phase: str | None
    framework: str | None
    backend: str | None
    namespace: str | None
    owners: str
    searched: str
    gpus: int
    nodes: int
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    is_active: bool
    is_stuck: bool
    restarted_at: datetime | None


def entry_of(id: str, records: TaskRecords, owners: str, now: datetime) -> JobEntry | None:
    """The entry of a job; None if the task has no job, or not yet in this try.

    :param id: the ID of the task instance.
    :param records: the records of the task instance.
    :param owners: the owners of the DAG.
    :param now: the current time.
    """
    state = state_of(records, None, now)
    if not state.job:
        return None
    job, request = state.job, state.request
    names = (records.dag_id, records.task_id, records.run_id, text(job.get("name")), sentence_of(state).summary)
    return JobEntry(
        id=id,
        dag_id=records.dag_id,
        run_id=records.run_id,
        task_id=records.task_id,
        map_index=records.map_index,
        phase=state.phase,
        framework=text(job.get("framework")),
        backend=text(job.get("backend")),
        namespace=text(request.get("namespace")),
        owners=owners,
        searched="\n".join(filter(None, (*names, state.reason, state.message))).lower(),
        gpus=whole(request.get("gpus")) or 0,
        nodes=whole(request.get("nodes")) or len(state.replicas),
        queued_at=state.queued_at,
        started_at=state.started_at,
        finished_at=state.finished_at,
        is_active=state.is_active,
        is_stuck=_is_stuck(state),
        restarted_at=_restarted_at(state),
    )


def _is_stuck(state: JobState) -> bool:
    if state.phase not in ("queued", "starting"):
        return False
    return state.reason == _UNSCHEDULABLE or any(is_stuck(row) for row in state.replicas)


def _restarted_at(state: JobState) -> datetime | None:
    starts = (moment(row.get("started_at")) for row in state.replicas if whole(row.get("restarts")))
    return max(filter(None, starts), default=None)
