"""The operator that runs a training job and waits for its result."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowTaskTimeout, BaseOperator, conf

from airflow_trainer_provider.operators.outcome import concluded, fail, hand_on, may_start_again, tell_collected

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_trainer_provider.frameworks.layout import Job
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.backend import Backend
    from airflow_trainer_provider.job.conclusion import Conclusion
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.identity import Identity
    from airflow_trainer_provider.kinds.manifest import ManifestJob

    Work = Job | ManifestJob

#: How long a page that shows the job waits for a cluster that has to be asked first, in seconds.
_RENDER_SECONDS = 10
#: How much later than the task's own time a job's deadline is: while Airflow is there, it ends the job and says why.
_ORPHANED = timedelta(minutes=1)
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


#: How the name of a manifest's file ends.
_MANIFEST_FILES = (".yaml", ".yml", ".json")


class TrainJobOperator(BaseOperator):
    """Run a distributed training job and push its result to XCom.

    The fields from ``framework`` to ``on_finish_action`` are those of
    :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`, where their meaning stands; all are templated, nested
    values too. They are validated when the task runs, before anything is started.

    XCom holds ``job``, the job's handle, before the wait begins; ``return_value`` with how it went, replica by
    replica, its metrics, and the JSON that rank 0 wrote to ``$TRAINER_RESULT_PATH``; or ``failure``, with the
    replica that failed first, why, and whether a retry can help.

    :param framework: ``pytorch``, ``tensorflow``, ``mpi``, ``xgboost``, ``paddle`` or ``jax``; needed unless there is a
        ``manifest``.
    :param manifest: a TrainJob, PyTorchJob, TFJob, XGBoostJob, MPIJob, PaddleJob, JAXJob or batch/v1 Job of your own: a
        mapping, YAML or JSON text, or the name of a file with it (``.yaml``, ``.yml``, ``.json``), which is rendered as
        a template. Its kind says which backend it is for. Beside it only ``framework``, ``name``, ``run_policy`` (how
        it may start), ``on_kill_action`` and ``on_finish_action`` may be given.
    :param backend: ``trainer``, ``training-operator``, ``mpi-operator``, ``native``, or ``auto`` for the first of these
        that the cluster has and that can run the job; ``local`` for the worker's own machine. None takes
        ``[trainer] backend``.
    :param kubernetes_conn_id: the connection to the cluster.
    :param namespace: where the job runs in the cluster; None takes the manifest's, the connection's, and then
        ``[trainer] namespace``.
    :param wait_for_completion: False returns the job's handle at once; a
        :class:`~airflow_trainer_provider.sensors.train_job.TrainJobSensor` then waits for it.
    :param deferrable: wait in the triggerer; Airflow's ``[operators] default_deferrable`` by default.
    :param render_only: return the whole job as text, and start nothing.
    """

    template_fields: Sequence[str] = (
        *SPEC_FIELDS,
        "manifest",
        "backend",
        "kubernetes_conn_id",
        "namespace",
        "rendered_job",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "rendered_job": "yaml",
        "replicas": "json",
        "env": "json",
        "command": "json",
        "args": "json",
        "pod_template": "yaml",
        "manifest": "yaml",
    }
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        framework: str | None = None,
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
        manifest: Mapping[str, Any] | str | None = None,
        backend: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str | None = None,
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
        self.manifest = manifest
        if isinstance(manifest, str) and "\n" not in manifest:
            # Of this one field only: an argument that ends so is the training's, and not a file of Airflow's.
            self.template_ext = _MANIFEST_FILES
        self.backend = backend
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.wait_for_completion = wait_for_completion
        self.deferrable = deferrable
        self.render_only = render_only
        self.rendered_job = ""
        self.handle: JobHandle | None = None
        #: Whether this process has begun to submit the job, or has taken it over.
        self.may_have_job = False
        self._killed = False

    @cached_property
    def hook(self) -> TrainerHook:
        """The hook that finds the backend."""
        # Not at the module's top: every DAG file that uses the operator would pay for it at each parse.
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        return TrainerHook(self.backend, self.kubernetes_conn_id, self.namespace)

    def execute(self, context: Context) -> Any:
        """Start or adopt the job, and wait for it here or in the triggerer."""
        from airflow_trainer_provider.errors import TrainJobError

        try:
            job = self._job()
            backend = self._choose(job)
            text = backend.render(job, _identity(context))
            # The log page folds what lies between these two, which have to be lines of their own.
            self.log.info("::group::The job")
            self.log.info("%s", text)
            self.log.info("::endgroup::")
            if self.render_only:
                return text
            handle = self._submit(context, backend, job)
            if not self.wait_for_completion:
                return dict(handle.to_xcom())
            if self.deferrable:
                # Airflow enforces execution_timeout only while a worker runs the task.
                timeout = self.execution_timeout
                deadline = (datetime.now(timezone.utc) + timeout).isoformat() if timeout else None
                self._defer(context, handle, job, deadline, starts=1)
            return self._wait(context, handle, job)
        except TrainJobError as error:
            fail(error)

    def execute_complete(
        self, context: Context, event: dict[str, Any], job: dict[str, Any], deadline: str | None, starts: int
    ) -> dict[str, Any]:
        """Go on after the trigger has fired.

        :param event: how the wait ended.
        :param job: the job's handle.
        :param deadline: when the task's time is over, in ISO 8601.
        :param starts: how many jobs this try has had.
        """
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.job.handle import JobHandle

        handle = self.handle = JobHandle.parse(job)
        self.may_have_job = True
        if event["end"] == "timed out":
            self.hook.cancel_now(handle, "the task's execution_timeout had passed")
            raise AirflowTaskTimeout(f"Training job {handle.name} was ended: execution_timeout had passed.")
        conclusion = concluded(event)
        if conclusion.failure and conclusion.failure.infrastructure:
            try:
                self._defer_again(context, handle, conclusion, deadline, starts)
            except TrainJobError as error:
                fail(error)
        return hand_on(context, self.hook, handle, conclusion)

    def on_kill(self) -> None:
        """End the job: the task was marked, cleared, or timed out."""
        self._killed = True
        if self.handle:
            self.log.info("The task was killed; ending training job %s.", self.handle.name)
            self.hook.cancel_now(self.handle, "the task was killed")

    def dry_run(self) -> None:
        """Log the whole job as text, and start nothing."""
        from airflow_trainer_provider.job.identity import Identity

        unknown = Identity(dag_id=self.dag_id, run_id="dry-run", task_id=self.task_id)
        self.log.info("The job:\n%s", self._job_text(unknown))

    def _job(self) -> Work:
        from airflow_trainer_provider.frameworks.layout import lay_out
        from airflow_trainer_provider.spec import parse_spec

        fields = {field: getattr(self, field) for field in SPEC_FIELDS}
        if self.manifest is not None:
            return self._manifest_job(fields)
        return lay_out(parse_spec(fields | {"run_policy": self._bounded_run_policy()}))

    def _manifest_job(self, fields: Mapping[str, Any]) -> ManifestJob:
        import yaml
        from airflow.sdk.log import mask_secret

        from airflow_trainer_provider.errors import Problem, SpecError
        from airflow_trainer_provider.hooks.backends import AUTO
        from airflow_trainer_provider.job.redaction import secrets_in
        from airflow_trainer_provider.kinds.manifest import manifest_job
        from airflow_trainer_provider.spec import parse_manifest_spec

        job = manifest_job(parse_manifest_spec({**fields, "manifest": self.manifest}))
        # Airflow knows a secret by the key it stands under, which a list of variables has none of, and looks for it in
        # texts, but not as deep down as these are.
        self.manifest = yaml.safe_dump(job.spec.manifest, sort_keys=False, width=math.inf)
        for secret in secrets_in(job.spec.manifest):
            mask_secret(secret)
        if self.backend not in (None, AUTO, job.backend):
            allowed = f"{job.backend!r}, which a {job.kind.resource.kind} is for"
            raise SpecError([Problem("backend", self.backend, allowed, "Drop backend, or correct manifest.kind.")])
        # Noted where the rendered fields are: whoever ends the job of a task that was killed looks there.
        self.backend = job.backend
        self.namespace = self.namespace or job.spec.namespace
        return job

    def _bounded_run_policy(self) -> Mapping[str, Any] | None:
        """The run policy, with a deadline for the job where the task has one: Airflow may be gone by then."""
        policy, timeout = self.run_policy, self.execution_timeout
        # What is no mapping is for the spec to refuse.
        if timeout is None or not isinstance(policy or {}, Mapping):
            return policy
        return {"active_deadline_seconds": math.ceil((timeout + _ORPHANED).total_seconds()), **(policy or {})}

    def _choose(self, job: Work) -> Backend:
        from airflow_trainer_provider.hooks.loop import run

        chosen = run(self.hook.choose(job))
        if chosen.why:
            self.log.info("%s", chosen.why)
        chosen.backend.check(job)
        return chosen.backend

    def _submit(self, context: Context, backend: Backend, job: Work) -> JobHandle:
        from airflow_trainer_provider.hooks.loop import run

        self.may_have_job = True
        submission = run(backend.submit(job, _identity(context)))
        handle = self.handle = submission.handle
        if self._killed:
            # Airflow calls on_kill() in the middle of anything, and goes on with it.
            self.on_kill()
        if submission.adopted:
            self.log.info("Adopted training job %s: %s.", handle.name, submission.adopted)
        else:
            self.log.info("Submitted training job %s to backend %s.", handle.name, handle.backend)
        context["ti"].xcom_push(key="job", value=handle.to_xcom())
        return handle

    def _start_again(self, context: Context, handle: JobHandle, job: Work, conclusion: Conclusion) -> JobHandle:
        """Let go of a job that the infrastructure failed, and submit it anew. It gets another name."""
        if conclusion.failure:
            self.log.warning("%s", conclusion.failure.text())
        self.log.warning("It starts again, as run_policy.infrastructure_retries allows: the infrastructure failed it.")
        tell_collected(self.hook, handle)
        return self._submit(context, self._choose(job), job)

    def _defer_again(
        self, context: Context, handle: JobHandle, conclusion: Conclusion, deadline: str | None, starts: int
    ) -> None:
        job = self._job()
        if may_start_again(conclusion, job, starts):
            self._defer(context, self._start_again(context, handle, job, conclusion), job, deadline, starts + 1)

    def _defer(self, context: Context, handle: JobHandle, job: Work, deadline: str | None, starts: int) -> None:
        from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

        told = dict(handle.to_xcom())
        self.defer(
            trigger=TrainJobTrigger(
                told,
                _reader(context),
                deadline,
                cancel_on_kill=True,
                startup_timeout=job.spec.run_policy.startup_timeout_seconds,
            ),
            method_name="execute_complete",
            kwargs={"job": told, "deadline": deadline, "starts": starts},
        )

    def _wait(self, context: Context, handle: JobHandle, job: Work) -> dict[str, Any]:
        from airflow_trainer_provider.hooks.loop import run

        for starts in itertools.count(1):
            conclusion = run(
                self.hook.wait(
                    handle,
                    emit=self._emit,
                    reader=_reader(context),
                    deadline=None,
                    startup_timeout=job.spec.run_policy.startup_timeout_seconds,
                )
            )
            if not may_start_again(conclusion, job, starts):
                break
            handle = self._start_again(context, handle, job, conclusion)
        return hand_on(context, self.hook, handle, conclusion)

    def _emit(self, line: str) -> None:
        self.log.info("%s", line)

    def _job_text(self, identity: Identity) -> str:
        from airflow_trainer_provider.hooks.loop import run

        # First: a manifest says where the hook has to look.
        job = self._job()
        return run(self.hook.render(job, identity), _RENDER_SECONDS)

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
        try:
            return self._job_text(_identity(context))
        except Exception as error:
            return json.dumps({"error": str(error) or type(error).__name__}, indent=2)


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
