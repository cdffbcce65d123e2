"""Which tasks of a DAG have one of the provider's operators, as the database has the DAG's versions.

Any task may push a value to XCom under the keys that the provider uses: it counts only where one of these pushed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy.orm import Session

#: The operator's template field that no other operator has.
OURS = "rendered_job"
#: A DAG, and the version of it that a task instance has; None where Airflow has not recorded that.
Version = tuple[str, UUID | None]
#: How many versions are remembered.
_MOST = 10_000
#: Serialized DAGs that are held at once, as one may be large.
_AT_ONCE = 20

#: Version of a DAG -> its tasks of ours. Airflow changes no version that has task instances.
_known: dict[UUID, frozenset[str]] = {}


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
    found = {id: _known[id] for _, id in wanted if id in _known}
    read = _read(session, {id for _, id in wanted if id is not None and id not in found})
    if len(_known) + len(read) > _MOST:
        _known.clear()
    _known.update(read)
    found |= read
    latest = {dag_id: declared_tasks(session, dag_id) for dag_id, id in wanted if id not in found}
    return {(dag_id, id): found[id] if id in found else latest[dag_id] for dag_id, id in wanted}


def _read(session: Session, ids: Iterable[UUID]) -> dict[UUID, frozenset[str]]:
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import select

    missing = list(ids)
    if not missing:
        return {}
    query = select(SerializedDagModel).where(SerializedDagModel.dag_version_id.in_(missing))
    found = session.scalars(query.execution_options(yield_per=_AT_ONCE))
    return {each.dag_version_id: _tasks(each) for each in found}


def _tasks(serialized: SerializedDagModel) -> frozenset[str]:
    dag: Mapping[str, Any] = (serialized.data or {}).get("dag") or {}
    tasks = [task.get("__var") or {} for task in dag.get("tasks") or ()]
    return frozenset(str(task.get("task_id")) for task in tasks if OURS in (task.get("template_fields") or ()))
