"""Finds the tasks that have one of the provider's operators, by serialized DAGs and rendered fields in the database.

Any task may push XComs with the keys that the provider uses. They count only if one of these tasks pushed them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

#: A template field that only the provider's operators have.
OURS = "rendered_job"
#: A DAG and one of its versions; None if Airflow has not recorded the version of a task instance.
Version = tuple[str, UUID | None]
#: The maximum number of cached versions.
_MOST = 10_000
#: How many serialized DAGs are loaded at the same time, as each may be large.
_AT_ONCE = 20

#: Version of a DAG -> the hash of the serialized DAG, which Airflow may replace, and the tasks of this provider in it.
_known: dict[UUID, tuple[str, frozenset[str]]] = {}


def declared_tasks(session: Session, dag_id: str) -> frozenset[str]:
    """The tasks of a DAG with one of the provider's operators, in the DAG's latest version.

    :param session: a session of the database.
    :param dag_id: the DAG.
    """
    from airflow.models.serialized_dag import SerializedDagModel

    found = SerializedDagModel.get(dag_id, session=session)
    return _tasks(found) if found else frozenset()


def declared_in(session: Session, versions: Iterable[Version]) -> Mapping[Version, frozenset[str]]:
    """The tasks with one of the provider's operators, for several versions of DAGs.

    :param session: a session of the database.
    :param versions: the versions of task instances. For a version that Airflow does not have, the latest one is used.
    """
    wanted = set(versions)
    found = _read(session, {id for _, id in wanted if id is not None})
    latest = {dag_id: declared_tasks(session, dag_id) for dag_id, id in wanted if id not in found}
    return {(dag_id, id): found[id] if id in found else latest[dag_id] for dag_id, id in wanted}


def is_rendered_by_us() -> ColumnElement[bool]:
    """The SQL condition that one of the provider's operators has rendered the fields of a task instance."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from sqlalchemy import Text, cast

    return cast(Rendered.rendered_fields, Text).contains(f'"{OURS}":', autoescape=True)


def _read(session: Session, ids: Collection[UUID]) -> dict[UUID, frozenset[str]]:
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import select

    if not ids:
        return {}
    of_version = SerializedDagModel.dag_version_id
    hashes = select(of_version, SerializedDagModel.dag_hash).where(of_version.in_(ids))
    found, changed = {}, []
    for id, dag_hash in session.execute(hashes):
        known = _known.get(id)
        if known and known[0] == dag_hash:
            found[id] = known[1]
        else:
            changed.append(id)
    if changed:
        query = select(SerializedDagModel).where(of_version.in_(changed)).execution_options(yield_per=_AT_ONCE)
        for each in session.scalars(query):
            found[each.dag_version_id] = _tasks(each)
            _remember(each.dag_version_id, each.dag_hash, found[each.dag_version_id])
    return found


def _remember(id: UUID, dag_hash: str, tasks: frozenset[str]) -> None:
    if len(_known) >= _MOST:
        _known.clear()
    _known[id] = dag_hash, tasks


def _tasks(serialized: SerializedDagModel) -> frozenset[str]:
    dag: Mapping[str, Any] = (serialized.data or {}).get("dag") or {}
    tasks = [task.get("__var") or {} for task in dag.get("tasks") or ()]
    return frozenset(str(task.get("task_id")) for task in tasks if OURS in (task.get("template_fields") or ()))
