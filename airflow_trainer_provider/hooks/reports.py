"""Writes a job's progress, and its status, to the XCom of the task that waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.hooks.masking import masked
from airflow_trainer_provider.hooks.supervisor.api_server import check_api_server
from airflow_trainer_provider.hooks.supervisor.ask import ask
from airflow_trainer_provider.hooks.supervisor.queue import RequestQueue, Turn
from airflow_trainer_provider.hooks.task import task_instance_of
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.progress.reporter import Reporter, Values
from airflow_trainer_provider.text.storable import storable


@dataclass(frozen=True)
class Reports:
    """The settings for a task's reports on its job.

    :param identity: the task, whose XCom is written.
    :param metrics: name of a metric -> regular expression, as in the spec.
    """

    identity: Identity
    metrics: Mapping[str, str]

    def reporter(self, handle: JobHandle) -> Reporter:
        """The reporter of a job. After a restart of the triggerer or of the job it continues from the values in XCom.

        :param handle: the job.
        """
        return Reporter(handle, self.metrics, self._report, self._load)

    async def _load(self, is_last: bool) -> Values:
        earlier: dict[str, Any] = {}

        async def read() -> None:
            earlier.update(await ask(self._get, ("progress", "status")))

        await RequestQueue.here().run(read, Turn.LAST if is_last else Turn.SOON)
        return earlier

    async def _report(self, read: Callable[[], Values], is_last: bool) -> None:
        async def write() -> None:
            await ask(self._set, read())

        await RequestQueue.here().run(write, Turn.LAST if is_last else Turn.USUAL)

    def _get(self, keys: tuple[str, ...]) -> dict[str, Any]:
        from airflow.sdk.bases.xcom import BaseXCom

        check_api_server()
        found = {key: BaseXCom.get_one(key=key, **task_instance_of(self.identity)) for key in keys}
        return {key: value for key, value in found.items() if isinstance(value, dict)}

    def _set(self, values: Values) -> None:
        from airflow.sdk.bases.xcom import BaseXCom

        # BaseXCom, and not a custom XCom backend of the deployment: such a backend may create an object for each write,
        # and the code for the view reads only Airflow's database. The values are of bounded size.
        check_api_server()
        for key, value in values.items():
            BaseXCom.set(key=key, value=storable(masked(value)), **task_instance_of(self.identity))
