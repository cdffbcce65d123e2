"""Reads the data of the views from Airflow's database. The number of queries does not depend on the amount of data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from airflow.jobs.job import Job
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
from airflow.models.taskinstance import TaskInstance as TI
from airflow.models.taskinstancehistory import TaskInstanceHistory as History
from airflow.models.trigger import Trigger
from airflow.models.xcom import XComModel as XCom
from airflow.utils.session import create_session
from sqlalchemy import and_, func, or_, select, tuple_
from sqlalchemy.orm import aliased

from airflow_trainer_provider.plugins.declared import declared_in, is_rendered_by_us
from airflow_trainer_provider.plugins.view.model.records import EarlierRun, TaskRecords, TryRecord

if TYPE_CHECKING:
    from sqlalchemy import Row, Select
    from sqlalchemy.orm import Session

#: XCom keys with a job's state; and these together with the reports of its script.
STATE_KEYS = ("job", "request", "status", "failure", "return_value", "summary")
ALL_KEYS = (*STATE_KEYS, "progress")
#: How many earlier runs are used for the typical duration.
USUAL_RUNS = 5
#: The largest map index that a database supports; PostgreSQL fails with a larger number.
LAST_MAP_INDEX = 2**31 - 1


_Owner = TypeVar("_Owner")


class TaskKey(NamedTuple):
    """A task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


def read_task(key: TaskKey, earlier: int = 0) -> TaskRecords | None:
    """The records of a task instance; None if it does not exist. Blocks while the database answers.

    :param key: the task instance.
    :param earlier: the maximum number of earlier runs to read.
    """
    with create_session(scoped=False) as session:
        return _read(session, key, earlier)


def _read(session: Session, key: TaskKey, earlier: int) -> TaskRecords | None:
    row = session.execute(select_tasks().where(*_is(TI, key))).first()
    if row is None:
        return None
    return records_of(
        row,
        _xcoms(session, key),
        is_training=bool(trainings(session, [row])),
        before=_earlier_tries(session, key, row.try_number),
        earlier=_earlier_runs(session, key, row.start_date, earlier) if earlier else (),
    )


def select_tasks(*columns: Any) -> Select[Any]:
    """The query for task instances, with the last heartbeat of the worker or triggerer that waits for the job.

    :param columns: further columns to read.
    """
    key: tuple[Any, ...] = (TI.dag_id, TI.run_id, TI.task_id, TI.map_index)
    return (
        select(
            *key,
            TI.dag_version_id,
            TI.state,
            TI.try_number,
            TI.max_tries,
            TI.start_date,
            TI.end_date,
            TI.last_heartbeat_at,
            # A trigger that no triggerer has picked up waits since its creation.
            func.coalesce(Job.latest_heartbeat, Trigger.created_date).label("triggerer_seen_at"),
            *columns,
        )
        .outerjoin(Trigger, TI.trigger_id == Trigger.id)
        .outerjoin(Job, Job.id == Trigger.triggerer_id)
    )


def trainings(session: Session, rows: Iterable[Row[Any]]) -> Set[TaskKey]:
    """The task instances with one of the provider's operators.

    Airflow moves unfinished task instances to each new version of a DAG, so the rendered fields show which operator
    ran. Airflow drops them for older runs, and a task that has not run has none: then the DAG's version decides.

    :param session: a session of the database.
    :param rows: rows of :func:`select_tasks`.
    """
    versions = {key_of(row): (row.dag_id, row.dag_version_id) for row in rows}
    key = (Rendered.dag_id, Rendered.run_id, Rendered.task_id, Rendered.map_index)
    query = select(*key).where(tuple_(*key).in_(versions), is_rendered_by_us())
    rendered = {TaskKey(*found) for found in session.execute(query)}
    rest = versions.keys() - rendered
    declared = declared_in(session, (versions[each] for each in rest))
    return rendered | {each for each in rest if each.task_id in declared[versions[each]]}


def key_of(row: Row[Any]) -> TaskKey:
    """The task instance of a row.

    :param row: a row of :func:`select_tasks`.
    """
    return TaskKey(row.dag_id, row.run_id, row.task_id, row.map_index)


def records_of(
    row: Row[Any],
    xcoms: Mapping[str, Any],
    *,
    is_training: bool,
    before: Iterable[TryRecord] = (),
    earlier: Iterable[EarlierRun] = (),
) -> TaskRecords:
    """The records of a task instance, from its row.

    :param row: a row of :func:`select_tasks`.
    :param xcoms: the task instance's XComs, by key; they are ignored if the operator is not the provider's.
    :param is_training: whether the operator is one of the provider's: see :func:`trainings`.
    :param before: the tries before the latest one.
    :param earlier: earlier runs in which the task succeeded, the latest first.
    """
    is_deferred = row.state == "deferred"
    return TaskRecords(
        *key_of(row),
        is_training=is_training,
        state=row.state,
        try_number=row.try_number,
        max_tries=row.max_tries,
        tries=(*before, TryRecord(row.try_number, row.state, row.start_date, row.end_date)),
        xcoms=xcoms if is_training else {},
        waiter="triggerer" if is_deferred else "worker",
        waiter_seen_at=row.triggerer_seen_at if is_deferred else row.last_heartbeat_at,
        earlier=tuple(earlier),
    )


def _is(model: Any, key: TaskKey) -> tuple[Any, ...]:
    return (
        model.dag_id == key.dag_id,
        model.task_id == key.task_id,
        model.run_id == key.run_id,
        model.map_index == key.map_index,
    )


def _xcoms(session: Session, key: TaskKey) -> dict[str, Any]:
    query = select_xcoms().where(*_is(XCom, key), XCom.key.in_(ALL_KEYS))
    rows = ((key, name, value) for name, value in session.execute(query))
    return xcoms_by(rows).get(key, {})


def select_xcoms(*owner: Any) -> Select[Any]:
    """The query of XComs for :func:`xcoms_by`: columns that identify the owner, the key, and the value.

    The values of functions are left out, as they may be large. Their tasks also have a summary, which is shown instead.

    :param owner: the columns that identify the owner.
    """
    summary = aliased(XCom)
    # By columns of XCom's primary key.
    has_summary = (
        select(summary.key)
        .where(
            summary.dag_run_id == XCom.dag_run_id,
            summary.task_id == XCom.task_id,
            summary.map_index == XCom.map_index,
            summary.key == "summary",
        )
        .exists()
    )
    return select(*owner, XCom.key, XCom.value).where(or_(XCom.key != "return_value", ~has_summary))


def xcoms_by(rows: Iterable[tuple[_Owner, str, Any]]) -> dict[_Owner, dict[str, Any]]:
    """The XComs of each task instance, by key. The summary of a function's job is under the same key as any other's.

    :param rows: the owner, the key, and the value as stored in the database.
    """
    found: dict[_Owner, dict[str, Any]] = {}
    for owner, name, value in rows:
        found.setdefault(owner, {})[name] = _value(value)
    return {owner: _with_summary(xcoms) for owner, xcoms in found.items()}


def _with_summary(xcoms: dict[str, Any]) -> dict[str, Any]:
    # The task of a function returns the function's value, and pushes the job's summary under another key.
    return {**xcoms, "return_value": xcoms["summary"]} if "summary" in xcoms else xcoms


def _value(value: Any) -> Any:
    """The value of an XCom, parsed if it is JSON text, as Airflow itself writes it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _earlier_tries(session: Session, key: TaskKey, latest: int) -> Iterable[TryRecord]:
    query = (
        select(History.try_number, History.state, History.start_date, History.end_date)
        .where(*_is(History, key), History.try_number < latest)
        .order_by(History.try_number)
    )
    return [TryRecord(*row) for row in session.execute(query)]


def _earlier_runs(session: Session, key: TaskKey, before: datetime | None, most: int) -> Iterable[EarlierRun]:
    """The last runs in which the task succeeded, with their XComs; curves are read only of the latest run."""
    same = (TI.dag_id == key.dag_id, TI.task_id == key.task_id, TI.map_index == key.map_index)
    query = (
        select(TI.run_id, TI.start_date, TI.end_date, DagRun.logical_date, DagRun.run_after)
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .where(*same, TI.state == "success", TI.run_id != key.run_id)
        .order_by(TI.end_date.desc())
        .limit(most)
    )
    if before is not None:
        query = query.where(TI.end_date < before)
    runs = session.execute(query).all()
    if not runs:
        return []
    left = _xcoms_of_runs(session, key, [run.run_id for run in runs])
    return [
        EarlierRun(
            run.run_id, run.logical_date or run.run_after, run.start_date, run.end_date, left.get(run.run_id, {})
        )
        for run in runs
    ]


def _xcoms_of_runs(session: Session, key: TaskKey, run_ids: list[str]) -> dict[str, dict[str, Any]]:
    latest_curves = and_(XCom.key == "progress", XCom.run_id == run_ids[0])
    query = select_xcoms(XCom.run_id).where(
        XCom.dag_id == key.dag_id,
        XCom.task_id == key.task_id,
        XCom.map_index == key.map_index,
        XCom.run_id.in_(run_ids),
        or_(XCom.key.in_(("return_value", "summary")), latest_curves),
    )
    rows = ((run_id, name, value) for run_id, name, value in session.execute(query))
    return xcoms_by(rows)
