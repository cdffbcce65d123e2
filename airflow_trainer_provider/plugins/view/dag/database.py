"""Reads the runs of a DAG's training tasks. The number of queries does not depend on the number of runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
from airflow.models.taskinstance import TaskInstance as TI
from airflow.models.xcom import XComModel as XCom
from airflow.utils.session import create_session
from sqlalchemy import and_, select

from airflow_trainer_provider.plugins.declared import declared_tasks, is_rendered_by_us
from airflow_trainer_provider.plugins.view.dag.records import DagRecords, RunRecord
from airflow_trainer_provider.plugins.view.database import (
    STATE_KEYS,
    key_of,
    records_of,
    select_tasks,
    select_xcoms,
    trainings,
    xcoms_by,
)
from airflow_trainer_provider.plugins.view.model.values import mapping

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.orm import Session

#: A run's ID, and the map index of the task in it.
RunKey = tuple[str, int]
#: States of task instances that have not run a training.
_NONE = ("skipped", "removed", "upstream_failed")


def read_dag(dag_id: str, task_id: str | None, limit: int) -> DagRecords:
    """The last runs of a training task. Blocks while the database answers.

    :param dag_id: the DAG.
    :param task_id: the task. If it is not a training task of the DAG, the DAG's first training task is used.
    :param limit: the maximum number of runs.
    """
    with create_session(scoped=False) as session:
        tasks = _training_tasks(session, dag_id)
        shown = task_id if task_id in tasks else next(iter(tasks), None)
        if shown is None:
            return DagRecords(dag_id)
        # One more run, to show the changes of the oldest one.
        runs = _runs(session, dag_id, shown, limit + 1)
        before = runs[limit] if len(runs) > limit else None
        return DagRecords(dag_id, tasks, shown, tuple(runs[:limit]), before)


def read_progress(dag_id: str, task_id: str, runs: Sequence[RunKey]) -> list[Mapping[str, Any]] | None:
    """The script's reports in several runs; None if the task is not a training task of the DAG.

    :param dag_id: the DAG.
    :param task_id: the task.
    :param runs: the runs.
    :return: one mapping for each run, in the same order; empty if the run has no reports.
    """
    with create_session(scoped=False) as session:
        if task_id not in _training_tasks(session, dag_id):
            return None
        found = _xcoms(session, dag_id, task_id, runs, ("progress",))
        return [mapping(found.get(run, {}).get("progress")) for run in runs]


def _training_tasks(session: Session, dag_id: str) -> tuple[str, ...]:
    """The training tasks of the DAG's latest version, and tasks whose fields a provider's operator has rendered."""
    declared = declared_tasks(session, dag_id)
    asked = select(XCom.task_id).where(XCom.dag_id == dag_id, XCom.key == "request").distinct()
    others = set(session.scalars(asked)) - declared
    of_others = (Rendered.dag_id == dag_id, Rendered.task_id.in_(others))
    rendered = select(Rendered.task_id).where(*of_others, is_rendered_by_us()).distinct()
    return tuple(sorted({*declared, *(session.scalars(rendered) if others else ())}))


def _runs(session: Session, dag_id: str, task_id: str, limit: int) -> list[RunRecord]:
    label = TI.__table__.c.rendered_map_index.label("map_label")
    query = (
        select_tasks(label, DagRun.logical_date, DagRun.run_after)
        .join(DagRun, and_(DagRun.dag_id == TI.dag_id, DagRun.run_id == TI.run_id))
        .where(TI.dag_id == dag_id, TI.task_id == task_id, TI.state.not_in(_NONE))
        .order_by(DagRun.run_after.desc(), DagRun.id.desc(), TI.map_index.desc())
        .limit(limit)
    )
    rows = session.execute(query).all()
    keys = [(row.run_id, row.map_index) for row in rows]
    # Without the curves, which have a separate request.
    xcoms = _xcoms(session, dag_id, task_id, keys, STATE_KEYS)
    fields = _fields(session, dag_id, task_id, keys)
    # In an earlier version of the DAG the task may have had another operator.
    ours = trainings(session, rows)
    return [
        _run(row, xcoms.get(key, {}), fields.get(key, {}))
        for key, row in zip(keys, rows, strict=True)
        if key_of(row) in ours
    ]


def _run(row: Row[Any], xcoms: Mapping[str, Any], fields: Mapping[str, Any]) -> RunRecord:
    label = None if row.map_index < 0 else row.map_label or str(row.map_index)
    return RunRecord(records_of(row, xcoms, is_training=True), row.logical_date or row.run_after, label, fields)


def _xcoms(
    session: Session, dag_id: str, task_id: str, runs: Collection[RunKey], keys: Collection[str]
) -> dict[RunKey, dict[str, Any]]:
    query = select_xcoms(XCom.run_id, XCom.map_index).where(*_are(XCom, dag_id, task_id, runs), XCom.key.in_(keys))
    rows = (((run_id, map_index), name, value) for run_id, map_index, name, value in session.execute(query))
    return xcoms_by(rows)


def _fields(session: Session, dag_id: str, task_id: str, runs: Collection[RunKey]) -> dict[RunKey, Mapping[str, Any]]:
    query = select(Rendered.run_id, Rendered.map_index, Rendered.rendered_fields).where(
        *_are(Rendered, dag_id, task_id, runs)
    )
    return {(run_id, map_index): mapping(fields) for run_id, map_index, fields in session.execute(query)}


def _are(model: Any, dag_id: str, task_id: str, runs: Iterable[RunKey]) -> tuple[Any, ...]:
    run_ids, map_indexes = ({key[at] for key in runs} for at in (0, 1))
    return (
        model.dag_id == dag_id,
        model.task_id == task_id,
        model.run_id.in_(run_ids),
        model.map_index.in_(map_indexes),
    )
