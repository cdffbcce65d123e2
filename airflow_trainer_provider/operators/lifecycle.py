"""The operators that suspend, resume and delete jobs that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_trainer_provider.operators.outcome import fail

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_trainer_provider.cluster.cluster import Cluster
    from airflow_trainer_provider.cluster.manage import ClusterJob
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.handle import JobHandle


class _ManageTrainJobOperator(BaseOperator):
    """Do something with one job.

    :param job: the handle that an operator pushed to XCom: ``train.output["job"]``. It says where the job is.
    :param name: instead of ``job``, the job's name. It may be one that something else made.
    :param kind: with ``name``, the job's kind, e.g. ``PyTorchJob``; only needed where jobs of different kinds have the
        name.
    :param backend: with ``name``, the backend of the job's kind; see ``kind``.
    :param namespace: with ``name``, where the job is; None takes the connection's, and then ``[trainer] namespace``.
    :param kubernetes_conn_id: with ``name``, the connection to the cluster.
    """

    template_fields: Sequence[str] = ("job", "name", "kind", "backend", "namespace", "kubernetes_conn_id")
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        job: Mapping[str, Any] | str | XComArg | None = None,
        name: str | None = None,
        kind: str | None = None,
        backend: str | None = None,
        namespace: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.name = name
        self.kind = kind
        self.backend = backend
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id

    def execute(self, context: Context) -> None:
        """Do it."""
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.hooks.loop import run

        try:
            self._check_target()
            told = run(self._act(f"task {context['ti'].task_id} of DAG {context['ti'].dag_id}"))
        except TrainJobError as error:
            fail(error)
        self.log.info("%s", told)

    async def _act(self, who: str) -> str:
        """Do it.

        :param who: on whose behalf.
        :return: what was done.
        """
        raise NotImplementedError

    @cached_property
    def _handle(self) -> JobHandle | None:
        """The job's handle; None where the job is named."""
        from airflow_trainer_provider.job.handle import JobHandle

        return None if self.job is None else JobHandle.parse(self.job)

    @cached_property
    def _hook(self) -> TrainerHook:
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        return TrainerHook()

    async def _cluster(self) -> Cluster:
        from airflow_trainer_provider.cluster.cluster import Cluster
        from airflow_trainer_provider.cluster.objects import location_of
        from airflow_trainer_provider.hooks.connection import aget_cluster_connection

        conn_id = location_of(self._handle)[2] if self._handle else self.kubernetes_conn_id
        return await Cluster.of(await aget_cluster_connection(conn_id))

    async def _find(self, cluster: Cluster) -> ClusterJob:
        from airflow_trainer_provider.cluster import manage
        from airflow_trainer_provider.hooks.connection import choose_namespace

        if self._handle:
            return await manage.of_handle(cluster, self._handle)
        namespace = choose_namespace(self.namespace, cluster.connection, self._hook.settings.namespace)
        return await manage.get(cluster, namespace, str(self.name), backend=self.backend, kind=self.kind)

    def _check_target(self) -> None:
        from airflow_trainer_provider.errors import Problem, SpecError

        if (self.job is None) == (not self.name):
            fix = "Give one of the two. What is rendered to nothing counts as not given."
            raise SpecError([Problem("job", self.job, "either job, a handle, or name", fix)])

    def _refuse_local(self, what: str) -> None:
        from airflow_trainer_provider.errors import ManageError
        from airflow_trainer_provider.hooks.backends import LOCAL

        if self._handle and self._handle.backend == LOCAL:
            message = f"Training job {self._handle.name} runs on backend {LOCAL!r}, whose jobs cannot be {what}."
            raise ManageError(message, retryable=False)


class SuspendTrainJobOperator(_ManageTrainJobOperator):
    """Stop a job's pods and keep the job. A task that waits for the job goes on waiting.

    :param wait_until_stopped: until the pods are gone, and with them what they held.
    """

    def __init__(self, *, wait_until_stopped: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_until_stopped = wait_until_stopped

    async def _act(self, who: str) -> str:
        from airflow_trainer_provider.cluster import manage

        self._refuse_local("suspended")
        cluster = await self._cluster()
        job = await self._find(cluster)
        changed = await manage.suspend(cluster, job, wait=self.wait_until_stopped)
        return f"Suspended {job}." if changed else f"The {job} was suspended already."


class ResumeTrainJobOperator(_ManageTrainJobOperator):
    """Let a suspended job go on, with new pods. What its scripts did before they have to find in a checkpoint.

    :param wait_until_running: until all replicas run, or the job has ended; ``execution_timeout`` bounds it.
    """

    def __init__(self, *, wait_until_running: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_until_running = wait_until_running

    async def _act(self, who: str) -> str:
        from airflow_trainer_provider.cluster import manage

        self._refuse_local("suspended or resumed")
        cluster = await self._cluster()
        job = await self._find(cluster)
        changed = await manage.resume(cluster, job)
        told = f"Resumed {job}." if changed else f"The {job} is not suspended."
        if not self.wait_until_running:
            return told
        self.log.info("%s", told)
        return f"The {job} is {(await manage.until_running(cluster, job)).text()}."


class DeleteTrainJobOperator(_ManageTrainJobOperator):
    """Delete a job with all that belongs to it. One that is gone already is no error.

    A task that waits for the job fails, and is told who deleted it. Of the local backend's jobs only the processes end;
    their logs stay.

    :param wait_until_gone: until the pods are gone, and with them what they held.
    """

    def __init__(self, *, wait_until_gone: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_until_gone = wait_until_gone

    async def _act(self, who: str) -> str:
        from airflow_trainer_provider.errors import JobLost

        try:
            return await self._delete(f"deleted by {who}")
        except JobLost as error:
            return f"Nothing to delete: {error}"

    async def _delete(self, reason: str) -> str:
        from airflow_trainer_provider.cluster import manage
        from airflow_trainer_provider.errors import ManageError
        from airflow_trainer_provider.hooks.backends import LOCAL

        handle = self._handle
        if handle and handle.backend == LOCAL:
            backend = await self._hook.backend_of(handle)
            if not await backend.cancel(handle, reason):
                raise ManageError(
                    f"A later try of its task waits for training job {handle.name}: it was not ended. Take its handle.",
                    retryable=False,
                )
            if self.wait_until_gone:
                async for _ in backend.watch(handle):
                    pass
            return f"Ended training job {handle.name}."
        cluster = await self._cluster()
        job = await self._find(cluster)
        deleted = await manage.delete(cluster, job, reason, wait=self.wait_until_gone)
        return f"Deleted {job}." if deleted else f"Nothing to delete: the {job} is gone already."
