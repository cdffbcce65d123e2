"""The operator that runs a training job and waits for its result."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowTaskTimeout, BaseOperator, BaseOperatorLink, conf

from airflow_trainer_provider.operators.failures.next_try import is_final_by_limits, of_next_try, weighed
from airflow_trainer_provider.operators.failures.starts import Starts
from airflow_trainer_provider.operators.fields import check_names, refuse_misplaced
from airflow_trainer_provider.operators.hidden_fields import hide_secrets
from airflow_trainer_provider.operators.links import JOB_LINKS, ToolLink, links_of, push_links
from airflow_trainer_provider.operators.outcome import acknowledge, fail, hand_on, outcome_of
from airflow_trainer_provider.operators.request import request_of
from airflow_trainer_provider.text.hidden_values import given, hidden

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_trainer_provider.hooks.backends import JobPlace
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.backend import Admit, Backend, Submission
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.identity import Identity
    from airflow_trainer_provider.job.outcome import JobOutcome
    from airflow_trainer_provider.job.plan.plan import JobPlan, ManifestPlan, Plan
    from airflow_trainer_provider.operators.asked import Governed
    from airflow_trainer_provider.presets.merge import Merged
    from airflow_trainer_provider.spec import TrainJobSpec


#: How many seconds the rendering of a job waits for the cluster's answers, e.g. for the Rendered Templates tab.
_RENDER_SECONDS = 10
#: How much later than the task's execution_timeout the job's own deadline is: as long as Airflow runs, Airflow ends the
#: job and reports why.
_ORPHANED = timedelta(minutes=1)
#: Seconds for a task that received SIGTERM to ask whether it is over, and to end its job. Airflow kills it after 5.
_KILL_SECONDS = 4
#: Seconds for which a task that timed out waits until the request to end its job has been accepted.
_TIMEOUT_SECONDS = 15
#: The operator's parameters that determine where the job runs.
_PLACE = ("backend", "kubernetes_conn_id", "namespace")
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
    "scheduling",
    "volumes",
    "checkpoint",
    "pod",
    "pod_template",
    "tools",
    "metrics",
    "on_kill_action",
    "on_finish_action",
)


#: The suffixes of a manifest's file.
_MANIFEST_FILES = (".yaml", ".yml", ".json")


class TrainJobOperator(BaseOperator):
    """Run a distributed training job and push its result to XCom.

    The parameters from ``framework`` to ``on_finish_action`` are the fields of
    :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`, which documents them. All of them are templated, including
    nested values. They are validated when the task runs, before anything is started.

    The task pushes to XCom:

    - ``job``, the job's handle, and ``request``, what the task asks for, before the wait begins;
    - ``progress``, what the script reports, and ``status``, the job's status, while the task waits;
    - ``return_value`` if the job succeeds: times, a row for each replica, progress, metrics, and the JSON that rank 0
      wrote to ``$TRAINER_RESULT_PATH``;
    - ``failure`` if the job fails: the replica that failed first, the reason, and whether a retry can help.

    :param framework: ``pytorch``, ``tensorflow``, ``mpi``, ``xgboost``, ``paddle`` or ``jax``; required unless
        ``manifest`` is set.
    :param presets: names of presets, or a single name. Presets are parts of a spec, in the folder that
        ``[trainer] presets_folder`` names. They are merged in order; the fields of this task take precedence.
    :param manifest: your own TrainJob, PyTorchJob, TFJob, XGBoostJob, MPIJob, PaddleJob, JAXJob or batch/v1 Job: a
        mapping, YAML or JSON text, or the name of a file with it (``.yaml``, ``.yml``, ``.json``), which is rendered as
        a template. Its kind determines the backend. With a manifest only ``framework``, ``name``, ``run_policy`` (a
        part of its fields), ``metrics``, ``on_kill_action`` and ``on_finish_action`` may be set.
    :param backend: ``trainer``, ``training-operator``, ``mpi-operator``, ``native``, or ``auto`` for the first of these
        that the cluster has and that can run the job; ``local`` for the worker's own machine. None uses
        ``[trainer] backend``.
    :param kubernetes_conn_id: the connection to the cluster.
    :param namespace: the namespace in the cluster. None uses the manifest's, else the connection's, else
        ``[trainer] namespace``.
    :param wait_for_completion: False returns the job's handle at once; a
        :class:`~airflow_trainer_provider.sensors.train_job.TrainJobSensor` can then wait for the job.
    :param deferrable: wait in the triggerer; Airflow's ``[operators] default_deferrable`` by default.
    :param render_only: return the whole job as text, and start nothing.
    """

    template_fields: Sequence[str] = (
        *SPEC_FIELDS,
        "presets",
        "manifest",
        *_PLACE,
        "rendered_job",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "rendered_job": "yaml",
        "replicas": "json",
        "runtime_ref": "json",
        "launcher": "json",
        "env": "json",
        "command": "json",
        "args": "json",
        "scheduling": "json",
        "volumes": "yaml",
        "checkpoint": "json",
        "pod": "json",
        "pod_template": "yaml",
        "tools": "json",
        "metrics": "json",
        "manifest": "yaml",
    }
    ui_color = "#e8f0fe"
    # The links of mapped tasks. Other tasks set theirs in __init__, where the parameters are known.
    operator_extra_links: Collection[BaseOperatorLink] = (ToolLink(), *JOB_LINKS)
    #: The outcome of the job, once it has reached this process.
    outcome: JobOutcome | None = None
    # Where the task has submitted its last job; None if this process does not know it.
    _noted_place: JobPlace | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Airflow stores these fields. They identify the operator as this provider's, and locate a killed task's job.
        missing = [name for name in (*_PLACE, "rendered_job") if name not in cls.template_fields]
        cls.template_fields = (*cls.template_fields, *missing)

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
        env: Mapping[str, Any] | None = None,
        working_dir: str | None = None,
        resources_per_node: Mapping[str, Any] | None = None,
        launcher: Mapping[str, Any] | str | None = None,
        elastic: Mapping[str, Any] | None = None,
        run_policy: Mapping[str, Any] | None = None,
        runtime_ref: Mapping[str, Any] | str | None = None,
        scheduling: Mapping[str, Any] | None = None,
        volumes: Sequence[Mapping[str, Any]] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        pod: Mapping[str, Any] | None = None,
        pod_template: Mapping[str, Any] | None = None,
        tools: Mapping[str, Any] | None = None,
        metrics: Mapping[str, str] | None = None,
        on_kill_action: str | None = None,
        on_finish_action: str | None = None,
        presets: Sequence[str] | str | None = None,
        manifest: Mapping[str, Any] | str | None = None,
        backend: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str | None = None,
        wait_for_completion: bool = True,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        render_only: bool = False,
        **kwargs: Any,
    ) -> None:
        try:
            super().__init__(**kwargs)
        except TypeError:
            refuse_misplaced(kwargs)
            raise
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
        self.scheduling = scheduling
        self.volumes = volumes
        self.checkpoint = checkpoint
        self.pod = pod
        self.pod_template = pod_template
        self.tools = tools
        self.metrics = metrics
        self.on_kill_action = on_kill_action
        self.on_finish_action = on_finish_action
        self.presets = presets
        self.manifest = manifest
        if isinstance(manifest, str) and "\n" not in manifest:
            # Only with a manifest: template_ext applies to every field, and a word of a command line that ends in
            # .yaml is a file of the training, not one for Airflow to read.
            self.template_ext = _MANIFEST_FILES
        self.operator_extra_links = links_of(tools, presets)
        self.backend = backend
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.wait_for_completion = wait_for_completion
        self.deferrable = deferrable
        self.render_only = render_only
        self.rendered_job = ""
        self.handle: JobHandle | None = None
        #: Whether the task may have a job. The first try has none before its submit. A later try, or a process that
        #: resumes a try, may have a job that it does not know of.
        self.may_have_job = True
        #: This try of the task, set when the task is executed.
        self.identity: Identity | None = None
        self._secrets: frozenset[str] = frozenset()
        #: The fields of the spec, including those from presets.
        self._asked: Mapping[str, Any] | None = None
        self._admit: Admit | None = None
        #: The fields that define the job, before they were rendered, and the ids of values that are not rendered.
        self._templates: tuple[Mapping[str, Any], frozenset[int]] = ({}, frozenset())
        self._killed = self._timed_out = False

    @cached_property
    def hook(self) -> TrainerHook:
        """The hook that finds the backend."""
        # Imported here, so that parsing a DAG file does not import it.
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        return TrainerHook(*(given(getattr(self, field)) for field in _PLACE))

    def execute(self, context: Context) -> Any:
        """Start or adopt the job, and wait for it here or in the triggerer."""
        from airflow_trainer_provider.errors import BackendUnavailable, TrainJobError
        from airflow_trainer_provider.job.plan.together import placed_apart

        identity = self.identity = _identity(context)
        self.may_have_job = identity.try_number > 1
        deadline = self._deadline()
        try:
            if self.may_have_job:
                self.look_up_place(context)
            job, notes = self._planned()
            for note in notes:
                self.log.info("%s", note)
            backend = self._choose(job)
            if warning := placed_apart(job):
                self.log.warning("%s", warning)
            text = backend.render(job, identity)
            # The log page folds the lines between these two markers. Each marker has to be a separate line.
            self.log.info("::group::The job")
            self.log.info("%s", text)
            self.log.info("::endgroup::")
            if self.render_only:
                return text
            submission = self._submit(context, backend, job)
            handle = submission.handle
            if not self.wait_for_completion:
                self._release(handle)
                return dict(handle.to_xcom())
            if self.deferrable and not self._has_ended(submission):
                self._defer(context, handle, job, deadline, Starts())
            return self._wait(context, handle, job, deadline)
        except BackendUnavailable as error:
            # An earlier try may have submitted a job over a working connection, and this job may still run.
            error.retryable = identity.try_number > 1
            fail(error, context)
        except TrainJobError as error:
            fail(error, context)
        except AirflowTaskTimeout:
            self._end_timed_out(identity)
            raise

    def execute_complete(
        self,
        context: Context,
        event: dict[str, Any],
        job: dict[str, Any] | None = None,
        deadline: str | None = None,
        starts: int = 1,
        more_memory: Sequence[Mapping[str, Any]] = (),
    ) -> Any:
        """Resume the task after the trigger has fired.

        :param event: how the wait ended.
        :param job: the job's handle. None if Airflow passes only the event, which then has all arguments: it does so
            without a scheduler, as in ``dag.test()``.
        :param deadline: when the task's ``execution_timeout`` passes, in ISO 8601; None if the task has none.
        :param starts: how many jobs this try has submitted so far.
        :param more_memory: how the memory of these jobs was increased.
        """
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.job.handle import JobHandle

        if job is None:
            return self.execute_complete(context, event, **event["kwargs"])
        handle = self.handle = JobHandle.parse(job)
        identity = self.identity = _identity(context)
        if identity.try_number > handle.owner:
            # If an earlier try has failed, Airflow 3.1.0 resumes the next try with that try's event, and keeps that
            # try's XCom.
            context["ti"].xcom_push(key="failure", value=None)
            return self.execute(context)
        try:
            if event["end"] == "timed out":
                raise AirflowTaskTimeout(f"Training job {handle.name} was ended: execution_timeout had passed.")
            outcome, had = outcome_of(event), Starts(starts, more_memory)
            if outcome.failure and (outcome.failure.infrastructure or is_final_by_limits(outcome)):
                self._defer_again(context, handle, outcome, deadline, had)
            return self._concluded(context, handle, outcome, had)
        except TrainJobError as error:
            fail(error, context)
        except AirflowTaskTimeout:
            self._end_timed_out(identity)
            raise

    def process_result(self, context: Context, summary: dict[str, Any]) -> Any:
        """Process the result of a job that has succeeded. Subclasses override this method.

        It is called wherever the task has waited, also after a wait in the triggerer, when the code after
        ``super().execute()`` does not run. If it raises, the task fails, and the next try calls it with the result of
        the same job, unless a template such as ``{{ ti.try_number }}`` renders a different job in that try.

        :param context: the context of this try. The job's handle is ``self.handle``.
        :param summary: the job's summary, as in XCom ``return_value``.
        :return: the value that the task returns.
        """
        return summary

    def on_kill(self) -> None:
        """End the job if the task is over: it was marked or cleared, or its run has ended.

        Airflow also calls this if the worker has lost contact and the task will be tried again. Then the job keeps
        running for the next try.
        """
        self._killed = True
        if self.identity and self.may_have_job and not self._timed_out:
            from airflow_trainer_provider.hooks.loop import run_aside

            run_aside(self._end_if_over(self.identity), _KILL_SECONDS)

    async def _end_if_over(self, identity: Identity) -> None:
        from airflow_trainer_provider.hooks.task import state_if_over, why_ended

        try:
            state = await state_if_over(identity)
        except Exception as error:
            self.log.warning("The process received SIGTERM; Airflow does not say why (%s). The job goes on.", error)
            return
        if state is None:
            self.log.info("The process received SIGTERM. The task is not over: the job goes on for the next try.")
            return
        self.log.info("The task is %s; ending its training job.", state)
        await self.end_jobs(identity, why_ended(state))

    def look_up_place(self, context: Context) -> None:
        """Find out where the task has submitted its last job, unless this process already knows it.

        :param context: the context of this try.
        :raises SubmitError: Airflow does not answer.
        """
        from airflow_trainer_provider.operators.records.place import noted_place

        self._noted_place = self._noted_place or noted_place(context)

    async def end_jobs(self, identity: Identity, reason: str) -> None:
        """Ask the task's jobs to end, in the place of this try's job, or in the place of an earlier try's job.

        :param identity: this try of the task.
        :param reason: the reason that the jobs' status will show.
        """
        await self._hook_of_jobs().cancel_task(identity, reason, self.handle)

    def _hook_of_jobs(self) -> TrainerHook:
        """The hook that finds the task's jobs, even if the fields of this try are refused."""
        return self.hook if self.handle or not self._noted_place else _hook_of(self._noted_place)

    def _end_timed_out(self, identity: Identity) -> None:
        """End the job of a task whose ``execution_timeout`` has passed."""
        from airflow_trainer_provider.hooks.loop import run_aside

        self._timed_out = True
        if self.may_have_job:
            reason = "the task's execution_timeout had passed"
            run_aside(self.end_jobs(identity, reason), _TIMEOUT_SECONDS)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """The facet of the job for OpenLineage's events. Airflow's OpenLineage provider, if installed, calls this.

        :param task_instance: this task's instance, in the process that has run it.
        """
        from airflow_trainer_provider.operators.records.openlineage import lineage_of

        return lineage_of(self.handle, self.outcome)

    get_openlineage_facets_on_failure = get_openlineage_facets_on_complete

    def dry_run(self) -> None:
        """Log the whole job as text, and start nothing."""
        from airflow_trainer_provider.job.identity import Identity

        unknown = Identity(dag_id=self.dag_id, run_id="dry-run", task_id=self.task_id)
        self.log.info("The job:\n%s", self._job_text(unknown))

    def _job(self) -> Plan:
        return self._planned()[0]

    def _planned(self, timeout: float | None = None) -> tuple[Plan, list[str]]:
        """The job, and lines for the log that name the sources of its fields.

        :param timeout: how many seconds to wait for the connection that sets the job's namespace; None for no limit.
        """
        from airflow_trainer_provider.operators.asked import TASK, TIMEOUT, asked_for

        check_names(self, _PLACE)
        fields = {field: given(getattr(self, field)) for field in SPEC_FIELDS} | self._own_fields()
        asked = asked_for(given(self.presets), fields, None if self.manifest is not None else self._deadline_seconds)
        self._asked = asked.fields
        governed = self._governed(timeout)
        if self.manifest is not None:
            job: Plan = self._manifest_job(asked.fields)
            governed.check(job)
        else:
            job = self._spec_job(governed, asked)
        self._asked = asked.fields
        self._admit = governed.admission(job)
        return job, [] if asked.is_from(TASK, TIMEOUT) else [f"Fields {asked.summary()}."]

    def _spec_job(self, governed: Governed, asked: Merged) -> Plan:
        spec = governed.spec(asked)
        self._secrets = spec.secrets
        return governed.plan(spec)

    def _governed(self, timeout: float | None) -> Governed:
        from airflow_trainer_provider.hooks.loop import run
        from airflow_trainer_provider.hooks.settings import load_settings
        from airflow_trainer_provider.operators.asked import Governed
        from airflow_trainer_provider.policies.library import load_policies

        dag = self.get_dag()
        return Governed(
            load_policies(load_settings().policies_folder),
            dag.dag_id if dag else "",
            dag.tags if dag else (),
            lambda: run(self.hook.namespace(), timeout),
        )

    def _manifest_job(self, fields: Mapping[str, Any]) -> ManifestPlan:
        import yaml

        from airflow_trainer_provider.errors import Problem, SpecError
        from airflow_trainer_provider.hooks.backends import AUTO
        from airflow_trainer_provider.kinds.manifest import plan_manifest
        from airflow_trainer_provider.spec import parse_manifest_spec

        spec = parse_manifest_spec({**fields, "manifest": given(self.manifest)})
        job = plan_manifest(spec, self._deadline_seconds)
        self.manifest = hidden(yaml.safe_dump(job.spec.manifest, sort_keys=False, width=math.inf))
        if self.backend not in (None, AUTO, job.backend):
            allowed = f"{job.backend!r}, which a {job.spec.manifest['kind']} is for"
            raise SpecError([Problem("backend", self.backend, allowed, "Drop backend, or correct manifest.kind.")])
        # Stored with the rendered fields, where the listener that ends a killed task's job finds them.
        self.backend = job.backend
        self.namespace = self.namespace or job.spec.namespace
        return job

    @property
    def _deadline_seconds(self) -> int | None:
        """Seconds after which the cluster itself ends the job; None if the task has no ``execution_timeout``."""
        timeout = self.execution_timeout
        return math.ceil((timeout + _ORPHANED).total_seconds()) if timeout else None

    def _choose(self, job: Plan) -> Backend:
        from airflow_trainer_provider.hooks.loop import run

        chosen = run(self.hook.choose(job))
        if chosen.why:
            self.log.info("%s", chosen.why)
        chosen.backend.check(job)
        return chosen.backend

    def _submit(self, context: Context, backend: Backend, job: Plan, start: int = 1) -> Submission:
        from airflow_trainer_provider.hooks.loop import run

        identity = _identity(context)
        if self.may_have_job:
            self.look_up_place(context)
        self._move(self.hook.place(backend), context, identity)
        self.may_have_job = True
        submission = run(backend.submit(job, identity, start=start, admit=self._admit))
        handle = self.handle = submission.handle
        if self._killed:
            # Airflow may have called on_kill() during the submit, before the job existed, and then continued here.
            self.on_kill()
        if submission.adopted:
            self.log.info("Adopted training job %s: %s.", handle.name, submission.adopted)
        else:
            self.log.info("Submitted training job %s to backend %s.", handle.name, handle.backend)
            self._warn_unnamed(identity, backend, handle)
        for name, url in handle.tools.items():
            self.log.info("Tool %s: %s", name, url)
        context["ti"].xcom_push(key="job", value=handle.to_xcom())
        timeout, tries = self.execution_timeout, (self.retries or 0) + 1
        request = request_of(backend, handle, job, tries, timeout.total_seconds() if timeout else None)
        context["ti"].xcom_push(key="request", value=request)
        push_links(self, handle, context["ti"])
        return submission

    def _move(self, place: JobPlace, context: Context, identity: Identity) -> None:
        """Store where the job is about to be submitted. First end a job that an earlier try submitted elsewhere."""
        from airflow_trainer_provider.errors import SubmitError, TrainJobError
        from airflow_trainer_provider.hooks.loop import run
        from airflow_trainer_provider.operators.records.place import KEY, note_place

        earlier = self._noted_place
        if place == earlier:
            return
        if earlier:
            try:
                run(_hook_of(earlier).end_earlier(identity))
            except Exception as error:
                raise SubmitError(
                    f"An earlier try submitted its job elsewhere ({earlier}), where it may still train: {error} "
                    f"Nothing was started. If no job of this task is left there, delete {KEY!r} from the task's state.",
                    retryable=not isinstance(error, TrainJobError) or error.retryable,
                ) from error
            self.log.info("An earlier try submitted its job elsewhere (%s); none runs there any more.", earlier)
        note_place(context, place)
        self._noted_place = place

    def _warn_unnamed(self, identity: Identity, backend: Backend, handle: JobHandle) -> None:
        if not identity.deployment and backend.main_object(handle):
            self.log.warning(
                "Neither [trainer] deployment nor [api] base_url names this Airflow: where another one has the same "
                "DAG and submits to the same namespace, each takes the other's job for its own. Set [trainer] "
                "deployment while none of its jobs runs."
            )

    def _has_ended(self, submission: Submission) -> bool:
        """Whether the adopted job of an earlier try has already ended, so that the task need not be deferred."""
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.hooks.loop import run

        try:
            return submission.adopted is not None and run(self.hook.has_ended(submission.handle))
        except TrainJobError:
            # The trigger waits until the cluster answers.
            return False

    def _deadline(self) -> str | None:
        """When a deferred task times out: Airflow enforces execution_timeout only while the task is on a worker."""
        timeout = self.execution_timeout
        return (datetime.now(timezone.utc) + timeout).isoformat() if timeout else None

    def _release(self, handle: JobHandle) -> None:
        from airflow_trainer_provider.hooks.loop import run

        run(self.hook.release(handle))

    def _start_again(
        self, context: Context, handle: JobHandle, job: Plan, outcome: JobOutcome, starts: Starts
    ) -> tuple[JobHandle, Plan, Starts] | None:
        """Submit a job again under another name: unchanged, or with more memory.

        :param starts: the jobs that this try has submitted so far.
        :return: the new job; None if no other job is submitted and the outcome is the task's outcome.
        """
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.hooks.masking import masked

        another = starts.following(outcome, job, self._laid_out)
        if another is None:
            return None
        if outcome.failure:
            self.log.warning("%s", outcome.failure.text())
        self.log.warning("%s", another.why)
        acknowledge(self.hook, handle)
        try:
            submission = self._submit(context, self._choose(another.job), another.job, another.starts.count)
        except TrainJobError:
            # The failed job, and with it the reason of its failure, may be deleted by now.
            if failure := outcome.masked(masked).failure:
                context["ti"].xcom_push(key="failure", value=failure.to_xcom())
            raise
        return submission.handle, another.job, another.starts

    def _laid_out(self, spec: TrainJobSpec) -> JobPlan:
        return self._governed(None).plan(spec)

    def _defer_again(
        self, context: Context, handle: JobHandle, outcome: JobOutcome, deadline: str | None, starts: Starts
    ) -> None:
        from airflow_trainer_provider.errors import TrainJobError

        try:
            job = starts.last(self._job(), self._laid_out)
        except TrainJobError as error:
            self.log.warning("The job does not start again, as the task's fields are no job any more: %s", error)
            return
        again = self._start_again(context, handle, job, outcome, starts)
        if again:
            handle, job, starts = again
            self._defer(context, handle, job, deadline, starts)

    def _concluded(self, context: Context, handle: JobHandle, outcome: JobOutcome, starts: Starts) -> Any:
        """The task's return value after the job has succeeded; after a failure, the exception is raised."""
        outcome, ti = starts.noted_in(outcome), context["ti"]
        if is_final_by_limits(outcome) and ti.try_number <= ti.max_tries:
            outcome = weighed(outcome, self._job, lambda: of_next_try(self, *self._templates, context)._job())
        return self.process_result(context, hand_on(context, self.hook, handle, outcome))

    def _defer(self, context: Context, handle: JobHandle, job: Plan, deadline: str | None, starts: Starts) -> None:
        from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

        reference = dict(handle.to_xcom())
        self.defer(
            trigger=TrainJobTrigger(
                reference,
                _reader(context),
                deadline,
                cancel_on_kill=True,
                startup_timeout=job.spec.run_policy.startup_timeout_seconds,
                metrics=dict(job.spec.metrics),
                **starts.to_kwargs(),
            ),
            method_name="execute_complete",
            kwargs={"job": reference, "deadline": deadline, **starts.to_kwargs()},
        )

    def _wait(self, context: Context, handle: JobHandle, job: Plan, deadline: str | None) -> Any:
        from airflow_trainer_provider.hooks.loop import run
        from airflow_trainer_provider.hooks.reports import Reports
        from airflow_trainer_provider.hooks.supervisor.ask import finish_asking

        reports = Reports(_identity(context), job.spec.metrics)
        starts = Starts()
        while True:
            outcome = run(
                self.hook.wait(
                    handle,
                    emit=self._emit,
                    reader=_reader(context),
                    deadline=None,
                    startup_timeout=job.spec.run_policy.startup_timeout_seconds,
                    reports=reports,
                )
            )
            finish_asking()
            again = self._start_again(context, handle, job, outcome, starts)
            if again is None:
                return self._concluded(context, handle, outcome, starts)
            handle, job, starts = again
            if self.deferrable:
                self._defer(context, handle, job, deadline, starts)

    def _own_fields(self) -> dict[str, Any]:
        """Fields of the spec that are not parameters of the operator."""
        return {}

    def _emit(self, line: str) -> None:
        from airflow_trainer_provider.hooks.supervisor.task_log import write_line

        write_line(line)

    def _job_text(self, identity: Identity) -> str:
        from airflow_trainer_provider.hooks.loop import run

        # Before the hook is used: a manifest sets the hook's backend and namespace.
        job, _ = self._planned(_RENDER_SECONDS)
        return run(self.hook.render(job, identity), _RENDER_SECONDS)

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # Both mapped and unmapped tasks call this method to render their fields.
        if parent is self:
            fields = {field: getattr(self, field) for field in (*SPEC_FIELDS, "presets", "manifest")}
            self._templates = fields, frozenset(seen_oids)
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        if parent is self:
            self.rendered_job = self._rendered_or_reason(context)
            # The name of a Secret is not secret, although the field that holds it has "secret" in its name.
            names = (self.dag_id, self.task_id, *self._secrets)
            hide_secrets(self, (*SPEC_FIELDS, "presets", "manifest", *_PLACE), names, self._asked)

    def _rendered_or_reason(self, context: Context) -> str:
        """The text for the Rendered Templates tab: the job, or why there is none. execute() raises the error itself."""
        try:
            return self._job_text(_identity(context))
        except Exception as error:
            from airflow_trainer_provider.text.redaction import redacted_text

            return json.dumps({"error": redacted_text(str(error)) or type(error).__name__}, indent=2)


def _hook_of(place: JobPlace) -> TrainerHook:
    from airflow_trainer_provider.hooks.trainer import TrainerHook

    return TrainerHook(*place)


def _identity(context: Context) -> Identity:
    from airflow_trainer_provider.hooks.task import identity_of_task

    return identity_of_task(context["ti"], context.get("dag_run"))


def _reader(context: Context) -> str:
    """The name of the reader of the job's logs. Each try has its own log page, and reads the logs from the start."""
    return f"try-{context['ti'].try_number}"
