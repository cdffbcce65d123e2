"""Which tasks have one of the provider's operators, as the database has the DAG's versions and what was rendered.

Any task may push a value to XCom under the keys that the provider uses: it counts only where one of these pushed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

#: The operator's template field that no other operator has.
OURS = "rendered_job"
#: A DAG, and a version of it; None where Airflow has not recorded that of a task instance.
Version = tuple[str, UUID | None]
#: How many versions are remembered.
_MOST = 10_000
#: Serialized DAGs that are held at once, as one may be large.
_AT_ONCE = 20

#: Version of a DAG -> the hash of what was read, as Airflow may replace it, and its tasks of ours.
_known: dict[UUID, tuple[str, frozenset[str]]] = {}


def declared_tasks(session: Session, dag_id: str) -> frozenset[str]:
    """The tasks of a DAG whose operator is one of ours, in its latest version.

    :param session: of the database.
    :param dag_id: the DAG.
    """
    from airflow.models.serialized_dag import SerializedDagModel

    found = SerializedDagModel.get(dag_id, session=session)
    return _tasks(found) if found else frozenset()


def declared_in(session: Session, versions: Iterable[Version]) -> Mapping[Version, frozenset[str]]:
    """The tasks whose operator is one of ours, in some versions; in the latest one where Airflow does not have it.

    :param session: of the database.
    :param versions: those of task instances.
    """
    wanted = set(versions)
    found = _read(session, {id for _, id in wanted if id is not None})
    latest = {dag_id: declared_tasks(session, dag_id) for dag_id, id in wanted if id not in found}
    return {(dag_id, id): found[id] if id in found else latest[dag_id] for dag_id, id in wanted}


def is_rendered_by_us() -> ColumnElement[bool]:
    """The condition that the rendered fields of a task instance are of one of our operators."""
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
