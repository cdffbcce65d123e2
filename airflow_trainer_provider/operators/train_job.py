"""The operator that runs a training job and waits for its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowTaskTimeout, BaseOperator, conf

from airflow_trainer_provider.operators.outcome import fail, hand_on

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_trainer_provider.frameworks.layout import Job
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.identity import Identity

#: The operator's parameters that are fields of the spec.
SPEC_FIELDS = (
    "framework",
    "name",
    "num_nodes",
    "num_workers",
    "num_proc_per_node",
    "replicas",
    "image",
    "command",
    "args",
    "env",
    "working_dir",
    "resources_per_node",
    "launcher",
    "elastic",
    "run_policy",
    "runtime_ref",
    "queue_name",
    "pod_template",
    "on_kill_action",
    "on_finish_action",
)


class TrainJobOperator(BaseOperator):
    """Run a distributed training job and push its result to XCom.

    The fields from ``framework`` to ``on_finish_action`` are those of
    :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`, where their meaning stands; all are templated, nested
    values too. They are validated when the task runs, before anything is started.

    XCom holds ``job``, the job's handle, before the wait begins; ``return_value`` with how it went, replica by
    replica, its metrics, and the JSON that rank 0 wrote to ``$TRAINER_RESULT_PATH``; or ``failure``, with the
    replica that failed first, why, and whether a retry can help.

    :param framework: ``pytorch``, ``tensorflow``, ``mpi``, ``xgboost``, ``paddle`` or ``jax``.
    :param backend: ``local``, or ``auto`` for a cluster; None takes ``[trainer] backend``.
    :param kubernetes_conn_id: the connection that ``auto`` looks for.
    :param wait_for_completion: False returns the job's handle at once; a
        :class:`~airflow_trainer_provider.sensors.train_job.TrainJobSensor` then waits for it.
    :param deferrable: wait in the triggerer; Airflow's ``[operators] default_deferrable`` by default.
    :param render_only: return the whole job as text, and start nothing.
    """

    template_fields: Sequence[str] = (*SPEC_FIELDS, "backend", "kubernetes_conn_id", "rendered_job")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "rendered_job": "yaml",
        "replicas": "json",
        "env": "json",
        "command": "json",
        "args": "json",
        "pod_template": "yaml",
    }
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        framework: str,
        name: str | None = None,
        num_nodes: int | str | None = None,
        num_workers: int | str | None = None,
        num_proc_per_node: int | str | None = None,
        replicas: Mapping[str, Any] | None = None,
        image: str | None = None,
        command: Sequence[str] | None = None,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        resources_per_node: Mapping[str, Any] | None = None,
        launcher: str | None = None,
        elastic: Mapping[str, Any] | None = None,
        run_policy: Mapping[str, Any] | None = None,
        runtime_ref: str | None = None,
        queue_name: str | None = None,
        pod_template: Mapping[str, Any] | None = None,
        on_kill_action: str | None = None,
        on_finish_action: str | None = None,
        backend: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        wait_for_completion: bool = True,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        render_only: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.framework = framework
        self.name = name
        self.num_nodes = num_nodes
        self.num_workers = num_workers
        self.num_proc_per_node = num_proc_per_node
        self.replicas = replicas
        self.image = image
        self.command = command
        self.args = args
        self.env = env
        self.working_dir = working_dir
        self.resources_per_node = resources_per_node
        self.launcher = launcher
        self.elastic = elastic
        self.run_policy = run_policy
        self.runtime_ref = runtime_ref
        self.queue_name = queue_name
        self.pod_template = pod_template
        self.on_kill_action = on_kill_action
        self.on_finish_action = on_finish_action
        self.backend = backend
        self.kubernetes_conn_id = kubernetes_conn_id
        self.wait_for_completion = wait_for_completion
        self.deferrable = deferrable
        self.render_only = render_only
        self.rendered_job = ""
        self._handle: JobHandle | None = None

    @cached_property
    def hook(self) -> TrainerHook:
        """The hook of the backend that the job runs on."""
        # Not at the module's top: every DAG file that uses the operator would pay for it at each parse.
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        return TrainerHook(self.backend, self.kubernetes_conn_id)

    def execute(self, context: Context) -> Any:
        """Start or adopt the job, and wait for it here or in the triggerer."""
        from airflow_trainer_provider.errors import TrainJobError

        try:
            job = self._job()
            self.hook.backend.check(job)
            text = self._job_text(job, _identity(context))
            # The log page folds what lies between these two, which have to be lines of their own.
            self.log.info("::group::The job")
            self.log.info("%s", text)
            self.log.info("::endgroup::")
            if self.render_only:
                return text
            handle = self._handle = self._submit(context, job)
        except TrainJobError as error:
            fail(error)
        if not self.wait_for_completion:
            return dict(handle.to_xcom())
        if self.deferrable:
            self._defer(context, handle)
        return self._wait(context, handle)

    def execute_complete(self, context: Context, event: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
        """Go on after the trigger has fired.

        :param event: how the wait ended.
        :param job: the job's handle.
        """
        from airflow_trainer_provider.errors import JobLost
        from airflow_trainer_provider.job.handle import JobHandle

        handle = self._handle = JobHandle.parse(job)
        if event["end"] == "lost":
            fail(JobLost(event["message"]))
        if event["end"] == "timed out":
            self.hook.cancel_now(handle, "the task's execution_timeout had passed")
            raise AirflowTaskTimeout(f"Training job {handle.name} was ended: execution_timeout had passed.")
        return hand_on(context, self.hook, handle)

    def on_kill(self) -> None:
        """End the job: the task was marked, cleared, or timed out."""
        if self._handle:
            self.log.info("The task was killed; ending training job %s.", self._handle.name)
            self.hook.cancel_now(self._handle, "the task was killed")

    def dry_run(self) -> None:
        """Log the whole job as text, and start nothing."""
        from airflow_trainer_provider.job.identity import Identity

        unknown = Identity(dag_id=self.dag_id, run_id="dry-run", task_id=self.task_id)
        self.log.info("The job:\n%s", self._job_text(self._job(), unknown))

    def _job(self) -> Job:
        from airflow_trainer_provider.frameworks.layout import lay_out
        from airflow_trainer_provider.spec import parse_spec

        return lay_out(parse_spec({field: getattr(self, field) for field in SPEC_FIELDS}))

    def _submit(self, context: Context, job: Job) -> JobHandle:
        submission = asyncio.run(self.hook.backend.submit(job, _identity(context)))
        handle = submission.handle
        if submission.adopted:
            self.log.info("Adopted training job %s: %s.", handle.name, submission.adopted)
        else:
            self.log.info("Submitted training job %s to backend %s.", handle.name, handle.backend)
        context["ti"].xcom_push(key="job", value=handle.to_xcom())
        return handle

    def _defer(self, context: Context, handle: JobHandle) -> None:
        from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

        # Airflow enforces execution_timeout only while a worker runs the task.
        timeout = self.execution_timeout
        deadline = (datetime.now(timezone.utc) + timeout).isoformat() if timeout else None
        job = dict(handle.to_xcom())
        self.defer(
            trigger=TrainJobTrigger(job, _reader(context), deadline, cancel_on_kill=True),
            method_name="execute_complete",
            kwargs={"job": job},
        )

    def _wait(self, context: Context, handle: JobHandle) -> dict[str, Any]:
        from airflow_trainer_provider.errors import TrainJobError

        try:
            asyncio.run(self.hook.follow(handle, emit=self._emit, reader=_reader(context), deadline=None))
        except TrainJobError as error:
            fail(error)
        return hand_on(context, self.hook, handle)

    def _emit(self, line: str) -> None:
        self.log.info("%s", line)

    def _job_text(self, job: Job, identity: Identity) -> str:
        return self.hook.backend.render(job, identity)

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # The one place that mapped and unmapped tasks both come through once their fields are rendered.
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        if parent is self:
            self.rendered_job = self._rendered_or_reason(context)

    def _rendered_or_reason(self, context: Context) -> str:
        """What the Rendered Template tab shows; execute() raises the error itself, with its log around it."""
        from airflow_trainer_provider.errors import TrainJobError

        try:
            return self._job_text(self._job(), _identity(context))
        except (TrainJobError, AirflowException) as error:
            return json.dumps({"error": str(error)}, indent=2)


def _identity(context: Context) -> Identity:
    from airflow_trainer_provider.job.identity import Identity

    ti = context["ti"]
    return Identity(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
    )


def _reader(context: Context) -> str:
    """Each try has a log page of its own, and reads the job's logs from their beginning."""
    return f"try-{context['ti'].try_number}"
