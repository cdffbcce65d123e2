"""Reads the jobs of all DAGs from Airflow's database. The number of queries is the same for 5,000 jobs and for one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.models.dag import DagModel
from airflow.models.taskinstance import TaskInstance as TI
from airflow.models.xcom import XComModel as XCom
from airflow.utils.session import create_session
from sqlalchemy import Text, and_, case, cast, func, or_, select
from sqlalchemy.orm import aliased

from airflow_trainer_provider.plugins.view.database import (
    STATE_KEYS,
    key_of,
    records_of,
    select_tasks,
    select_xcoms,
    trainings,
    xcoms_by,
)
from airflow_trainer_provider.plugins.view.model.records import TaskRecords

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

#: States of a task instance whose job may still be active. The job of a cleared task is ended.
_GOING_ON = ("scheduled", "queued", "running", "deferred", "up_for_reschedule", "up_for_retry", "restarting")
_ID = cast(TI.id, Text).label("id")
#: The number of task instances in one query: databases limit the number of a query's parameters.
_AT_ONCE = 500


class StoredTask(NamedTuple):
    """A task instance with its XComs.

    :param id: the task instance's ID, as the database writes it.
    :param owners: the owners of the DAG, as Airflow stores them.
    :param records: the records for the model.
    """

    id: str
    owners: str
    records: TaskRecords


def read_versions(since: datetime, settled: datetime) -> dict[str, str]:
    """The task instances that may have a job: ID -> a version, which is a text that changes with the task instance.

    Blocks while the database answers.

    :param since: task instances that ended before this time are left out.
    :param settled: the XComs of task instances that ended before this time no longer change.
    """
    asked, written = aliased(XCom), aliased(XCom)
    # By columns of XCom's primary key. The result is cast to text, as it is only compared for equality.
    written_at = (
        select(cast(func.max(written.timestamp), Text))
        .where(
            written.dag_run_id == asked.dag_run_id,
            written.task_id == asked.task_id,
            written.map_index == asked.map_index,
            written.key.in_(STATE_KEYS),
        )
        .scalar_subquery()
    )
    may_change = or_(TI.state.in_(_GOING_ON), TI.end_date >= settled)
    changed_at = case((may_change, written_at))
    query = (
        select(_ID, TI.state, TI.try_number, cast(TI.end_date, Text), changed_at, DagModel.owners, DagModel.dag_id)
        .select_from(asked)
        .join(TI, _of_task(asked))
        .outerjoin(DagModel, DagModel.dag_id == TI.dag_id)
        .where(asked.key == "request", or_(TI.state.in_(_GOING_ON), TI.end_date >= since))
        # In batches, and as text: with thousands of row objects, Python's garbage collector would scan all memory.
        .execution_options(yield_per=_AT_ONCE)
    )
    with create_session(scoped=False) as session:
        rows = session.execute(query)
        # For a DAG that Airflow no longer has, the rights to read are unknown.
        return {id: " ".join(map(str, version)) for id, *version, dag_id in rows if dag_id is not None}


def read_tasks(ids: Sequence[str], keys: Collection[str]) -> Iterator[StoredTask]:
    """The task instances with the given IDs that still exist. Blocks while the database answers.

    :param ids: the IDs of task instances.
    :param keys: the XCom keys to read.
    """
    of_column = TI.__table__.c.id.type.python_type
    with create_session(scoped=False) as session:
        for first in range(0, len(ids), _AT_ONCE):
            yield from _read_some(session, [of_column(id) for id in ids[first : first + _AT_ONCE]], keys)


def _read_some(session: Session, ids: Sequence[Any], keys: Collection[str]) -> Iterator[StoredTask]:
    xcoms = _xcoms(session, ids, keys)
    query = select_tasks(_ID, DagModel.owners).outerjoin(DagModel, DagModel.dag_id == TI.dag_id).where(TI.id.in_(ids))
    rows = session.execute(query).all()
    ours = trainings(session, rows)
    for row in rows:
        records = records_of(row, xcoms.get(row.id, {}), is_training=key_of(row) in ours)
        yield StoredTask(row.id, row.owners or "", records)


def _xcoms(session: Session, ids: Iterable[Any], keys: Collection[str]) -> dict[str, dict[str, Any]]:
    query = select_xcoms(_ID).join_from(TI, XCom, _of_task(XCom)).where(TI.id.in_(ids), XCom.key.in_(keys))
    rows = ((id, name, value) for id, name, value in session.execute(query))
    return xcoms_by(rows)


def _of_task(xcom: Any) -> Any:
    return and_(
        xcom.dag_id == TI.dag_id,
        xcom.task_id == TI.task_id,
        xcom.run_id == TI.run_id,
        xcom.map_index == TI.map_index,
    )
