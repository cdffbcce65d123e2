"""What the tasks of a run have left in Airflow's database that tells where their jobs are."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from airflow_trainer_provider.cluster.connection import ClusterConnection
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.identity import Identity

#: The operator's template field that no other operator has.
_OURS = "rendered_job"


class Trace(Protocol):
    """One task's."""

    async def end_jobs(self, identity: Identity, reason: str) -> None:
        """End the jobs of the task that have not ended.

        :param identity: the task, and the try whose jobs are meant.
        :param reason: what the jobs' status will say.
        """


@dataclass(frozen=True)
class Submitted:
    """The handle in XCom: the task had a job.

    :param handle: of that job.
    """

    handle: JobHandle

    async def end_jobs(self, identity: Identity, reason: str) -> None:
        """End them where that one was."""
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        hook = TrainerHook(self.handle.backend, read_connection=_read_connection)
        await hook.cancel_task(identity, reason, self.handle)


@dataclass(frozen=True)
class Begun:
    """The rendered templates only: the task was killed before it could tell of the job that it was submitting.

    :param fields: the operator's templated fields.
    """

    fields: Mapping[str, Any]

    async def end_jobs(self, identity: Identity, reason: str) -> None:
        """End them where the operator would have made one."""
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        fields = self.fields
        hook = TrainerHook(fields["backend"], fields["kubernetes_conn_id"], fields["namespace"], _read_connection)
        await hook.cancel_task(identity, reason)


def traces(dag_id: str, run_id: str, task_ids: Collection[str]) -> dict[tuple[str, int], Trace]:
    """The traces of those tasks of a run that are ours.

    :param dag_id: the run's DAG.
    :param run_id: the run.
    :param task_ids: of the tasks that are meant.
    :return: task id and map index -> where its job is, or would be.
    """
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.xcom import XComModel as XCom
    from airflow.utils.session import create_session
    from sqlalchemy import Text, cast, select

    handles = select(XCom.task_id, XCom.map_index, XCom.value).where(
        XCom.dag_id == dag_id, XCom.task_id.in_(task_ids), XCom.run_id == run_id, XCom.key == "job"
    )
    # Airflow drops these of all but a DAG's latest runs, so they alone will not do.
    fields = select(Rendered.task_id, Rendered.map_index, Rendered.rendered_fields).where(
        Rendered.dag_id == dag_id,
        Rendered.task_id.in_(task_ids),
        Rendered.run_id == run_id,
        cast(Rendered.rendered_fields, Text).contains(f'"{_OURS}"', autoescape=True),
    )
    # Not the caller's session: it is in the middle of something, and must not be committed by us.
    with create_session(scoped=False) as session:
        begun = {(task, index): Begun(values) for task, index, values in session.execute(fields)}
        submitted = {(task, index): _submitted(value) for task, index, value in session.execute(handles)}
    return {**begun, **{key: trace for key, trace in submitted.items() if trace}}


def _submitted(value: Any) -> Submitted | None:
    from airflow_trainer_provider.errors import SpecError
    from airflow_trainer_provider.job.handle import JobHandle

    try:
        return Submitted(JobHandle.parse(value))
    except SpecError:
        return None  # somebody else's value under the same key


async def _read_connection(conn_id: str) -> ClusterConnection:
    """Read a connection where the database is at hand."""
    from airflow.models.connection import Connection

    from airflow_trainer_provider.hooks.connection import cluster_connection

    # In a thread, which has a session of its own.
    found = await asyncio.to_thread(Connection.get_connection_from_secrets, conn_id)
    return cluster_connection(conn_id, found)
