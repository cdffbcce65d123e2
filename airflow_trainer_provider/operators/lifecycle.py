"""The operators that suspend, resume and delete existing jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_trainer_provider.operators.fields import check_names
from airflow_trainer_provider.operators.hidden_fields import HidesSecrets
from airflow_trainer_provider.operators.outcome import fail
from airflow_trainer_provider.text.hidden_values import given

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_trainer_provider.hooks.jobs import Located
    from airflow_trainer_provider.job.handle import JobHandle


_JOB_OR_NAME = "either job, a handle, or name"


class _ManageTrainJobOperator(HidesSecrets):
    """The base of the operators that change one job.

    :param job: the handle that an operator pushed to XCom, ``train.output["job"]``, which includes the job's place.
    :param name: instead of ``job``, the job's name. The job may have been created outside Airflow.
    :param kind: with ``name``, the job's kind, e.g. ``PyTorchJob``; only needed if jobs of different kinds have this
        name.
    :param backend: with ``name``, the backend of the job's kind; needed in the same case as ``kind``.
    :param namespace: with ``name``, the job's namespace. None uses the connection's, else ``[trainer] namespace``.
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
        """Change the job, and log what was done."""
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.hooks.loop import run

        try:
            self._check_target()
            message = run(self._act(f"task {context['ti'].task_id} of DAG {context['ti'].dag_id}"))
        except TrainJobError as error:
            fail(error)
        self.log.info("%s", message)

    async def _act(self, who: str) -> str:
        """Change the job.

        :param who: the task that changes the job, for the job's status.
        :return: a sentence on what was done, for the log.
        """
        raise NotImplementedError

    @cached_property
    def _handle(self) -> JobHandle | None:
        """The job's handle; None if the task sets the job's name instead."""
        from airflow_trainer_provider.job.handle import JobHandle

        return None if self.job is None else JobHandle.parse(given(self.job))

    async def _find(self) -> Located:
        """The job, and the backend that it runs on."""
        from airflow_trainer_provider.hooks.backends import AUTO
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        if self._handle:
            return await TrainerHook.for_job(self._handle).backend_of(self._handle), self._handle
        hook = TrainerHook(self.backend or AUTO, self.kubernetes_conn_id, self.namespace)
        return await hook.get(str(self.name), self.kind)

    def _check_target(self) -> None:
        from airflow_trainer_provider.errors import Problem, SpecError
        from airflow_trainer_provider.hooks.backends import check_backend

        check_names(self, self.template_fields[1:])
        if self.backend is not None:
            check_backend("backend", self.backend, auto=False)
        if (self.job is None) == (not self.name):
            fix = "Give one of the two. What is rendered to nothing counts as not given."
            raise SpecError([Problem("job", None if self.job is None else "a value", _JOB_OR_NAME, fix)])


class SuspendTrainJobOperator(_ManageTrainJobOperator):
    """Stop a job's pods and keep the job. A task that waits for the job continues to wait.

    :param wait_until_stopped: wait until the pods are deleted, and their resources are free.
    """

    def __init__(self, *, wait_until_stopped: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_until_stopped = wait_until_stopped

    async def _act(self, who: str) -> str:
        backend, handle = await self._find()
        return await backend.suspend(handle, wait=self.wait_until_stopped)


class ResumeTrainJobOperator(_ManageTrainJobOperator):
    """Resume a suspended job, with new pods. Its scripts continue from a checkpoint, if they have written one.

    :param wait_until_running: wait until all replicas run, or the job has ended; ``execution_timeout`` bounds the wait.
    """

    def __init__(self, *, wait_until_running: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_until_running = wait_until_running

    async def _act(self, who: str) -> str:
        from airflow_trainer_provider.hooks.jobs import until_running

        backend, handle = await self._find()
        message = await backend.resume(handle)
        if not self.wait_until_running:
            return message
        self.log.info("%s", message)
        return f"The {backend.title(handle)} is {(await until_running(backend, handle)).text()}."


class DeleteTrainJobOperator(_ManageTrainJobOperator):
    """Delete a job with all its objects. It is no error if the job no longer exists.

    A task that waits for the job fails, and its error names the task that deleted it. For a job of the local backend
    only the processes end; the logs are kept.

    :param wait_until_gone: wait until the pods are deleted, and their resources are free.
    """

    def __init__(self, *, wait_until_gone: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_until_gone = wait_until_gone

    async def _act(self, who: str) -> str:
        from airflow_trainer_provider.errors import JobLost

        try:
            backend, handle = await self._find()
            return await backend.delete(handle, f"deleted by {who}", wait=self.wait_until_gone)
        except JobLost as error:
            return f"Nothing to delete: {error}"
