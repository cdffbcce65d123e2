"""The records in Airflow's database that show where the jobs of tasks are."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_trainer_provider.operators.records.place import KEY, parse_place
from airflow_trainer_provider.plugins.declared import OURS, declared_tasks, is_rendered_by_us
from airflow_trainer_provider.plugins.requests import EndedRun, EndedTask, Request

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from airflow_trainer_provider.cluster.access.connection import ClusterConnection
    from airflow_trainer_provider.hooks.backends import JobPlace
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.handle import JobHandle

log = logging.getLogger(__name__)

#: Task ID and map index.
_Instance = tuple[str, int]


@dataclass(frozen=True)
class Ending:
    """The jobs of one task instance that have to be ended.

    :param task: the task instance, with the reason.
    :param handle: the handle that the task has pushed to XCom; None if it has not pushed one.
    :param fields: the operator's templated fields, as Airflow stores them; empty if Airflow has dropped them.
    :param noted: the place where the task submits its jobs, from the task's state; None if it is not stored.
    :param spare_released: do not end a released job, which outlives its task.
    :param of_run: whether the task is over because its run is over.
    """

    task: EndedTask
    handle: JobHandle | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    noted: JobPlace | None = None
    spare_released: bool = False
    of_run: bool = False

    def __str__(self) -> str:
        task = self.task
        return f"task {task.task_id} (map index {task.map_index}) in run {task.run_id} of DAG {task.dag_id}"

    @property
    def cluster(self) -> str:
        """An identifier of the cluster in which jobs are ended: the connection's ID, or the backend's name without one.

        :raises SpecError: the handle is invalid, since any user or task may write to XCom.
        """
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        if self.handle:
            main = TrainerHook.for_job(self.handle).main_object(self.handle)
            return main.conn_id if main else self.handle.backend
        return str(self.noted.kubernetes_conn_id if self.noted else self.fields["kubernetes_conn_id"])

    def is_due(self) -> bool:
        """Whether the task is over, by the database. It may have been cleared meanwhile, and have another job.

        Also False until the process that reported the end has committed it. Blocks while the database answers.
        """
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance as TI
        from airflow.utils.session import create_session
        from sqlalchemy import select

        from airflow_trainer_provider.hooks.task import OVER

        task = self.task
        one = (TI.run_id == task.run_id, TI.task_id == task.task_id, TI.map_index == task.map_index)
        with create_session(scoped=False) as session:
            found = session.execute(select(TI.state, TI.try_number).where(TI.dag_id == task.dag_id, *one)).first()
            of_run = select(DagRun.state).where(DagRun.dag_id == task.dag_id, DagRun.run_id == task.run_id)
            run_state = session.scalar(of_run)
        if found is None:
            return True  # deleted, with its run or its DAG
        state = run_state if self.of_run else found.state
        return found.try_number == task.try_number and state in OVER

    async def end_jobs(self) -> None:
        """End the jobs that have not ended, in each place that one of the records names.

        Users may edit XCom and the task's state, so no record overrides the place in another one.
        """
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.hooks.task import identity_of_task

        identity, errors = identity_of_task(self.task), []
        for hook, handle in self._hooks():
            try:
                await hook.cancel_task(identity, self.task.reason, handle, spare_released=self.spare_released)
            except TrainJobError as error:
                errors.append(error)
        if errors:
            raise max(errors, key=lambda error: error.retryable)

    def _hooks(self) -> Iterator[tuple[TrainerHook, JobHandle | None]]:
        """The hooks that find the jobs, each with the handle to look for; None to look for the task's jobs."""
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        if self.noted:
            yield TrainerHook(*self.noted, read_connection), None
        if self.handle:
            yield TrainerHook(self.handle.backend, read_connection=read_connection), self.handle
        # The task was killed before it could push the handle: its job is where the operator would have submitted it.
        if not (self.noted or self.handle) and (hook := self._hook_of_fields()):
            yield hook, None

    def _hook_of_fields(self) -> TrainerHook | None:
        from airflow_trainer_provider.errors import SpecError
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        given = (self.fields["backend"], self.fields["kubernetes_conn_id"], self.fields["namespace"])
        try:
            hook = TrainerHook(*given, read_connection)
            log.debug("The jobs of %s are looked for on backend %s", self, hook.name)
        except SpecError as error:
            log.info("%s has started no job: its fields were refused: %s", self, error)
            return None
        return hook


def endings_of(requests: Sequence[Request]) -> list[Ending]:
    """Find the jobs that have to be ended. Blocks while the database answers.

    :param requests: tasks and runs that are over.
    """
    from airflow.utils.session import create_session

    # Not the session of the process that reported the end: it is in use, and must not be committed here.
    with create_session(scoped=False) as session:
        return [ending for request in requests for ending in _endings(session, request)]


def _endings(session: Session, request: Request) -> Iterable[Ending]:
    if isinstance(request, EndedRun):
        return _endings_of_run(session, request)
    traces = _Traces(session, request.dag_id, request.run_id, {request.task_id})
    ending = traces.ending(request)
    return [ending] if ending else []


def _endings_of_run(session: Session, run: EndedRun) -> Iterable[Ending]:
    from airflow.models.taskinstance import TaskInstance as TI
    from sqlalchemy import select

    of_run = (TI.dag_id == run.dag_id, TI.run_id == run.run_id)
    rows = session.execute(select(TI.task_id, TI.map_index, TI.try_number, TI.state).where(*of_run)).all()
    traces = _Traces(session, run.dag_id, run.run_id, {row.task_id for row in rows})
    for row in rows:
        succeeded = row.state == "success"
        # A task that has succeeded by itself has a return value, except with do_xcom_push=False. In that case the job
        # shows whether it was released.
        if succeeded and (row.task_id, row.map_index) in traces.returned:
            continue
        task = EndedTask(run.dag_id, run.run_id, row.task_id, row.map_index, row.try_number, run.reason)
        ending = traces.ending(task, spare_released=succeeded, of_run=True)
        if ending:
            yield ending


class _Traces:
    """The records that some tasks of a run have left in the database.

    :param session: a session of the database.
    :param dag_id: the run's DAG.
    :param run_id: the run.
    :param task_ids: the tasks.
    """

    def __init__(self, session: Session, dag_id: str, run_id: str, task_ids: Collection[str]) -> None:
        self._session = session
        self._dag_id = dag_id
        self._where = (dag_id, run_id, task_ids)
        self._fields = self._rendered_fields()
        handles = self._xcoms(("job",), "value") if task_ids else ()
        self._handles: dict[_Instance, Any] = {(task, index): value for task, index, value in handles}
        self._noted = self._noted_places() if task_ids else {}
        #: Task instances that have returned a value, or whose function has returned None.
        self.returned: frozenset[_Instance] = frozenset()
        if self._handles or self._fields or self._noted:
            # Without the values, which may be large.
            self.returned = frozenset((task, index) for task, index in self._xcoms(("return_value", "summary")))
        self._declared: frozenset[str] | None = None

    def ending(self, task: EndedTask, *, spare_released: bool = False, of_run: bool = False) -> Ending | None:
        """The jobs of a task instance; None if its operator is not the provider's, or if it has left no records.

        :param task: the task instance.
        :param spare_released: see :class:`Ending`.
        :param of_run: see :class:`Ending`.
        """
        instance = (task.task_id, task.map_index)
        fields, handle, noted = (
            self._fields.get(instance),
            _handle(self._handles.get(instance)),
            self._noted.get(instance),
        )
        # Any task may write such values: they count only if one of the provider's operators has written them.
        if fields is None and (not (handle or noted) or task.task_id not in self._declared_tasks()):
            return None
        return Ending(task, handle, fields or {}, noted, spare_released, of_run)

    def _rendered_fields(self) -> dict[_Instance, Mapping[str, Any]]:
        from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
        from sqlalchemy import select

        dag_id, run_id, task_ids = self._where
        query = select(Rendered.task_id, Rendered.map_index, Rendered.rendered_fields).where(
            Rendered.dag_id == dag_id,
            Rendered.task_id.in_(task_ids),
            Rendered.run_id == run_id,
            is_rendered_by_us(),
        )
        rows = self._session.execute(query)
        return {(task, index): values for task, index, values in rows if OURS in values}

    def _noted_places(self) -> dict[_Instance, JobPlace]:
        """The places where the tasks submit their jobs, from their state. Airflow has this table since 3.3."""
        try:
            from airflow.models.task_state_store import TaskStateStoreModel as State
        except ImportError:
            return {}
        from sqlalchemy import select

        dag_id, run_id, task_ids = self._where
        query = select(State.task_id, State.map_index, State.value).where(
            State.dag_id == dag_id, State.task_id.in_(task_ids), State.run_id == run_id, State.key == KEY
        )
        found = {(task, index): _noted(value) for task, index, value in self._session.execute(query)}
        return {instance: place for instance, place in found.items() if place is not None}

    def _xcoms(self, keys: Collection[str], *columns: str) -> Iterable[Any]:
        """Rows of XCom with one of the keys: the task, its map index, and the given columns."""
        from airflow.models.xcom import XComModel as XCom
        from sqlalchemy import select

        dag_id, run_id, task_ids = self._where
        query = select(XCom.task_id, XCom.map_index, *(getattr(XCom, name) for name in columns)).where(
            XCom.dag_id == dag_id, XCom.task_id.in_(task_ids), XCom.run_id == run_id, XCom.key.in_(keys)
        )
        return self._session.execute(query)

    def _declared_tasks(self) -> frozenset[str]:
        """The DAG's tasks with one of the provider's operators; needed as Airflow drops older runs' rendered fields."""
        if self._declared is None:
            self._declared = declared_tasks(self._session, self._dag_id)
        return self._declared


def _handle(value: Any) -> JobHandle | None:
    from airflow_trainer_provider.errors import SpecError
    from airflow_trainer_provider.job.handle import JobHandle

    try:
        return JobHandle.parse(value)
    except SpecError:
        return None  # not a handle: a task of another operator uses the same key


def _noted(text: str) -> JobPlace | None:
    try:
        return parse_place(json.loads(text))
    except ValueError:
        return None  # a store of the deployment's own keeps its values elsewhere


async def read_connection(conn_id: str) -> ClusterConnection:
    """Read a connection in a process with access to the database, such as the scheduler and the API server."""
    from airflow.models.connection import Connection

    from airflow_trainer_provider.errors import ConnectionUnreadable
    from airflow_trainer_provider.hooks.connection import cluster_connection

    try:
        # In a thread, which uses its own session.
        found = await asyncio.to_thread(Connection.get_connection_from_secrets, conn_id)
    except Exception as error:
        # Airflow also reports "not found" if a secrets backend has failed.
        raise ConnectionUnreadable(conn_id, type(error).__name__) from error
    return cluster_connection(conn_id, found)
