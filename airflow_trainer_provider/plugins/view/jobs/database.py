"""Reads the jobs of all DAGs from Airflow's database, with as many queries for 5,000 jobs as for one."""

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

#: States of a task instance whose job goes on, or may: of a cleared one it is ended.
_GOING_ON = ("scheduled", "queued", "running", "deferred", "up_for_reschedule", "up_for_retry", "restarting")
_ID = cast(TI.id, Text).label("id")
#: Task instances in one query: databases bound the number of its parameters.
_AT_ONCE = 500


class StoredTask(NamedTuple):
    """A task instance with what it has in XCom.

    :param id: of the task instance, as the database writes it.
    :param owners: of the DAG, as Airflow keeps them.
    :param records: for the model.
    """

    id: str
    owners: str
    records: TaskRecords


def read_versions(since: datetime, settled: datetime) -> dict[str, str]:
    """The task instances that may have asked for a job: id -> a text that is another once anything of it has changed.

    Blocks while the database answers.

    :param since: those that ended before are left out.
    :param settled: the XCom of those that ended before does not change any more.
    """
    asked, written = aliased(XCom), aliased(XCom)
    # Along the primary key of XCom. As text: nothing but equality is asked of it.
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
        # Some at once, and texts: thousands of rows held together make Python search all its memory for garbage.
        .execution_options(yield_per=_AT_ONCE)
    )
    with create_session(scoped=False) as session:
        rows = session.execute(query)
        # Who may read a DAG that Airflow has no longer is not known.
        return {id: " ".join(map(str, version)) for id, *version, dag_id in rows if dag_id is not None}


def read_tasks(ids: Sequence[str], keys: Collection[str]) -> Iterator[StoredTask]:
    """Task instances by their ids, without those that are gone. Blocks while the database answers.

    :param ids: of task instances.
    :param keys: what of their XCom is read.
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
