"""The sensor that waits for a job which another task submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)

from airflow_trainer_provider.operators.outcome import concluded, fail, hand_on

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_trainer_provider.hooks.trainer import TrainerHook
    from airflow_trainer_provider.job.conclusion import Conclusion
    from airflow_trainer_provider.job.handle import JobHandle

#: How long one poke reads what is there before it says that the job goes on.
_POKE = timedelta(seconds=1)


class TrainJobSensor(BaseSensorOperator):
    """Wait for a training job, tell its log, and push its result to XCom as the operator would.

    Its outcome is safe then, and a cluster's job goes where its ``on_finish_action`` says so: where several tasks wait
    for one job, let that be ``keep``.

    :param job: the handle that the operator returned with ``wait_for_completion=False``: ``train.output``. In a
        template: ``{{ ti.xcom_pull("train", key="job") | tojson }}``.
    :param deferrable: wait in the triggerer; Airflow's ``[operators] default_deferrable`` by default. The modes
        ``poke`` and ``reschedule`` are for a sensor that does not.
    """

    template_fields: Sequence[str] = ("job",)
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        job: Mapping[str, Any] | str | XComArg,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.deferrable = deferrable
        self._told: str | None = None

    def execute(self, context: Context) -> Any:
        """Wait, here or in the triggerer."""
        if self.deferrable:
            self._defer(context)
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Tell the lines that came since the last poke, and whether the job has ended."""
        from airflow_trainer_provider.errors import JobTimeout, TrainJobError
        from airflow_trainer_provider.hooks.loop import run

        try:
            conclusion = run(self._look(context))
        except JobTimeout:
            return PokeReturnValue(is_done=False)
        except TrainJobError as error:
            fail(error)
        return PokeReturnValue(is_done=True, xcom_value=hand_on(context, self.hook, self.handle, conclusion))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Go on after the trigger has fired.

        :param event: how the wait ended.
        """
        try:
            return self._complete(context, event)
        except (AirflowException, AirflowSensorTimeout) as error:
            if self.soft_fail:
                raise AirflowSkipException(f"Skipped, as soft_fail says: {error}") from error
            raise

    def _complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        if event["end"] == "timed out":
            message = f"Training job {self.handle.name} had not ended after {self.timeout:g} s; it goes on."
            raise AirflowSensorTimeout(message)
        return hand_on(context, self.hook, self.handle, concluded(event))

    @cached_property
    def handle(self) -> JobHandle:
        """The job that is waited for."""
        from airflow_trainer_provider.errors import SpecError
        from airflow_trainer_provider.job.handle import JobHandle

        try:
            return JobHandle.parse(self.job)
        except SpecError as error:
            fail(error)

    @cached_property
    def hook(self) -> TrainerHook:
        """The hook of the backend that the job runs on."""
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        return TrainerHook.for_job(self.handle)

    async def _look(self, context: Context) -> Conclusion:
        backend = await self.hook.backend_of(self.handle)
        # What an ended job has to tell is read to its end, however long it takes.
        ended = (await backend.status(self.handle)).phase.ended
        deadline = None if ended else datetime.now(timezone.utc) + _POKE
        return await self.hook.wait(self.handle, emit=self._emit, reader=self._reader(context), deadline=deadline)

    def _defer(self, context: Context) -> None:
        from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

        deadline = datetime.now(timezone.utc) + timedelta(seconds=self.timeout)
        job = dict(self.handle.to_xcom())
        self.defer(
            trigger=TrainJobTrigger(job, self._reader(context), deadline.isoformat(), cancel_on_kill=False),
            method_name="execute_complete",
        )

    def _reader(self, context: Context) -> str:
        ti = context["ti"]
        return f"{ti.dag_id}-{ti.task_id}-{ti.map_index}-try-{ti.try_number}"

    def _emit(self, line: str) -> None:
        # Each poke begins with the phase, which a sensor in mode poke has told before.
        if line.startswith("[") or line != self._told:
            self.log.info("%s", line)
        if not line.startswith("["):
            self._told = line
