"""The sensor that waits for a job that another task submitted, or that was created outside Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)

from airflow_trainer_provider.operators.fields import check_names
from airflow_trainer_provider.operators.hidden_fields import HidesSecrets
from airflow_trainer_provider.operators.outcome import fail, hand_on_found, hand_on_sensed, outcome_of, raise_error
from airflow_trainer_provider.text.hidden_values import given

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_trainer_provider.hooks.found_jobs import FoundJobs
    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.backend import Wanted
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.outcome import JobOutcome

#: How long one poke follows a job before it returns that the job has not ended.
_POKE = timedelta(seconds=1)

_NO_HANDLE = (
    "The task that submits the job has returned none: it failed, was skipped, or pushes no XCom. Let the sensor run "
    "only after its success (trigger_rule), or give name or selector."
)


class TrainJobSensor(HidesSecrets, BaseSensorOperator):
    """Wait for a training job, log its lines, and push its result to XCom as the operator does.

    With ``job``, the sensor acknowledges the job's outcome like the operator: a job on a cluster is then deleted if its
    ``on_finish_action`` demands it. If several tasks wait for one job, set ``on_finish_action`` to ``keep``.

    With ``name`` or ``selector``, the sensor waits for a job on a cluster that any client may have created. The job
    need not exist yet. The sensor only reads: it never ends, deletes or changes such a job.

    :param job: the handle that the operator returned with ``wait_for_completion=False``: ``train.output``. In a
        template: ``{{ ti.xcom_pull("train", key="job") | tojson }}``.
    :param name: instead of ``job``, the job's name.
    :param selector: instead of ``job``, a Kubernetes label selector, e.g. ``app=train,stage!=test``.
    :param kind: with ``name`` or ``selector``, the job's kind, e.g. ``PyTorchJob``; None looks for all kinds.
    :param every_match: with ``name`` or ``selector``, whether to wait for all jobs that match, and to push a list.
        If False, several matches are an error.
    :param allowed_phases: with ``name`` or ``selector``, the phases in which the wait succeeds; ``["succeeded"]`` by
        default. A succeeded job counts as having reached ``running``. The sensor fails if a job ends in another phase.
    :param namespace: with ``name`` or ``selector``, the job's namespace. None uses the connection's, else
        ``[trainer] namespace``.
    :param kubernetes_conn_id: with ``name`` or ``selector``, the connection to the cluster.
    :param deferrable: wait in the triggerer; Airflow's ``[operators] default_deferrable`` by default. The modes
        ``poke`` and ``reschedule`` apply only if this is False.

    ``silent_fail`` applies to errors when the job's status is read: the sensor then continues to wait. If the job
    itself fails, the sensor fails in any case.
    """

    template_fields: Sequence[str] = (
        "job",
        "name",
        "selector",
        "kind",
        "allowed_phases",
        "namespace",
        "kubernetes_conn_id",
    )
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        job: Mapping[str, Any] | str | XComArg | None = None,
        name: str | None = None,
        selector: str | None = None,
        kind: str | None = None,
        every_match: bool = False,
        allowed_phases: Sequence[str] | None = None,
        namespace: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self._is_for_handle = job is not None
        self.name = name
        self.selector = selector
        self.kind = kind
        self.every_match = every_match
        self.allowed_phases = allowed_phases
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id
        self.deferrable = deferrable
        self._logged: str | None = None

    def execute(self, context: Context) -> Any:
        """Wait, here or in the triggerer."""
        with self._softly():
            self._check()
        if self.deferrable:
            self._defer(context)
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Log the lines that came since the last poke, and return whether the job has ended."""
        from airflow_trainer_provider.errors import JobTimeout, TrainJobError
        from airflow_trainer_provider.hooks.loop import run

        with self._softly():
            try:
                if self.job is None:
                    # A rescheduled sensor has no memory between two pokes, and writes no cursor to such a job.
                    found = run(self._found.poke(None if self.reschedule else self._reader(context)))
                    if found is None:
                        return PokeReturnValue(is_done=False)
                    return self._done(lambda: hand_on_found(context, found, self.every_match))
                outcome = run(self._look(context))
            except JobTimeout:
                return PokeReturnValue(is_done=False)
            except TrainJobError as error:
                fail(error)
            return self._done(lambda: hand_on_sensed(context, self.hook, self.handle, outcome))

    def _done(self, hand_on: Callable[[], Any]) -> PokeReturnValue:
        """The result of a poke that has found the job's end. The failure of the job ends the sensor.

        :param hand_on: publishes the outcome, and returns the value for Airflow to push.
        """
        from airflow_trainer_provider.operators.failures.exceptions import TrainJobFailure, permanent

        try:
            return PokeReturnValue(is_done=True, xcom_value=hand_on())
        except TrainJobFailure as failure:
            if not self.silent_fail or isinstance(failure, AirflowFailException):
                raise
            # With silent_fail Airflow would poke again, and the next poke would find the same failure.
            raise permanent(failure) from failure

    def execute_complete(
        self, context: Context, event: dict[str, Any], try_number: int | None = None, deadline: str | None = None
    ) -> Any:
        """Resume the sensor after the trigger has fired.

        :param event: how the wait ended.
        :param try_number: the try that began the wait.
        :param deadline: when the wait ends, in ISO 8601; None if Airflow passes only the event.
        """
        if try_number is not None and context["ti"].try_number > try_number:
            # If an earlier try has failed, Airflow 3.1.0 resumes the next try with that try's event.
            return self.execute(context)
        if self.silent_fail and event["end"] == "error" and event["retryable"]:
            self.log.error("%s; the sensor continues to wait, as silent_fail is set.", event["message"])
            self._defer(context, deadline)
        with self._softly():
            return self._complete(context, event)

    def _complete(self, context: Context, event: dict[str, Any]) -> Any:
        if event["end"] == "timed out":
            message = event.get("message")
            if self._wait_seconds < self.timeout:
                limit = f"execution_timeout ({self._wait_seconds:g} s) had passed"
                raise AirflowTaskTimeout(f"{message or 'The training job had not ended, and goes on.'} {limit}.")
            if message is None:
                message = f"Training job {self.handle.name} had not ended after {self.timeout:g} s; it goes on."
            raise AirflowSensorTimeout(message)
        if self.job is None:
            raise_error(event)
            from airflow_trainer_provider.hooks.found_jobs import Found

            return hand_on_found(context, [Found.parse(each) for each in event["found"]], self.every_match)
        return hand_on_sensed(context, self.hook, self.handle, outcome_of(event))

    @contextmanager
    def _softly(self) -> Iterator[None]:
        """Skip the sensor on a failure if ``soft_fail`` is set. Airflow itself does so only if it would not retry."""
        try:
            yield
        except AirflowSkipException:
            raise
        except AirflowTaskTimeout as error:
            if self.soft_fail or self.never_fail:
                which = "soft_fail" if self.soft_fail else "never_fail"
                raise AirflowSkipException(f"Skipped, as {which} says: {error}") from error
            raise
        except (AirflowException, AirflowSensorTimeout) as error:
            if self.soft_fail:
                raise AirflowSkipException(f"Skipped, as soft_fail says: {error}") from error
            raise

    @cached_property
    def _wanted(self) -> Wanted:
        """The jobs that ``name`` or ``selector`` selects."""
        from airflow_trainer_provider.job.backend import Wanted

        return Wanted(self.name, self.selector, self.kind, self.every_match)

    @cached_property
    def _found(self) -> FoundJobs:
        """The jobs that have been found so far."""
        from airflow_trainer_provider.hooks.backends import AUTO
        from airflow_trainer_provider.hooks.found_jobs import FoundJobs
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        hook = TrainerHook(AUTO, self.kubernetes_conn_id, self.namespace)
        return FoundJobs(hook, self._wanted, self._phases, self._emit)

    @property
    def _phases(self) -> list[str]:
        return ["succeeded"] if self.allowed_phases is None else list(self.allowed_phases)

    def _check(self) -> None:
        """Refuse invalid parameters and combinations before the wait begins."""
        from airflow_trainer_provider.errors import Problem, SpecError, TrainJobError
        from airflow_trainer_provider.spec import parse_field

        try:
            check_names(self, ("name", "selector", "kind", "namespace", "kubernetes_conn_id"))
            self.allowed_phases = parse_field("allowed_phases", tuple[str, ...], given(self.allowed_phases))
            named = {name: getattr(self, name) for name in ("name", "selector", "kind", "allowed_phases", "namespace")}
            if self.job is None and self._is_for_handle:
                raise SpecError([Problem("job", None, "the handle that an operator made", _NO_HANDLE)])
            if self.job is None:
                from airflow_trainer_provider.hooks.found_jobs import allowed
                from airflow_trainer_provider.kinds.registry import kinds_called

                allowed(self._phases)
                kinds_called(self._wanted.kind)
            elif extra := [name for name, value in named.items() if value is not None]:
                fix = "Drop it, or drop job."
                raise SpecError([Problem(name, named[name], "no value beside job", fix) for name in extra])
        except TrainJobError as error:
            fail(error)

    @cached_property
    def handle(self) -> JobHandle:
        """The job that the sensor waits for."""
        from airflow_trainer_provider.errors import SpecError
        from airflow_trainer_provider.job.handle import JobHandle

        try:
            return JobHandle.parse(given(self.job))
        except SpecError as error:
            fail(error)

    @cached_property
    def hook(self) -> TrainerHook:
        """The hook for the backend that the job runs on."""
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        return TrainerHook.for_job(self.handle)

    async def _look(self, context: Context) -> JobOutcome:
        backend = await self.hook.backend_of(self.handle)
        # All lines of an ended job are read, without a time limit.
        ended = (await backend.status(self.handle)).phase.ended
        deadline = None if ended else datetime.now(timezone.utc) + _POKE
        return await self.hook.wait(self.handle, emit=self._emit, reader=self._reader(context), deadline=deadline)

    @property
    def _wait_seconds(self) -> float:
        """How long a deferred sensor waits. No worker enforces ``execution_timeout`` during that time."""
        limit = self.execution_timeout
        return min(self.timeout, limit.total_seconds()) if limit else self.timeout

    def _defer(self, context: Context, deadline: str | None = None) -> None:
        """Wait in the triggerer.

        :param deadline: when the wait ends, in ISO 8601; None waits for the whole time from now.
        """
        deadline = deadline or (datetime.now(timezone.utc) + timedelta(seconds=self._wait_seconds)).isoformat()
        kwargs = {"try_number": context["ti"].try_number, "deadline": deadline}
        if self.job is None:
            from airflow_trainer_provider.triggers.found_jobs import FoundJobsTrigger

            wanted = vars(self._wanted)
            place = (self.kubernetes_conn_id, self.namespace)
            self.defer(
                trigger=FoundJobsTrigger(dict(wanted), self._phases, *place, self._reader(context), deadline),
                method_name="execute_complete",
                kwargs=kwargs,
            )
        from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

        job = dict(self.handle.to_xcom())
        self.defer(
            trigger=TrainJobTrigger(job, self._reader(context), deadline, cancel_on_kill=False),
            method_name="execute_complete",
            kwargs=kwargs,
        )

    def _reader(self, context: Context) -> str:
        ti = context["ti"]
        return f"{ti.dag_id}-{ti.task_id}-{ti.map_index}-try-{ti.try_number}"

    def _emit(self, line: str) -> None:
        from airflow_trainer_provider.hooks.supervisor.task_log import write_line

        # Each poke begins with the job's phase. In mode poke the sensor logs it only when it changes.
        if line.startswith("[") or line != self._logged:
            write_line(line)
        if not line.startswith("["):
            self._logged = line
