"""What a trigger waits for before its event wakes the task."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import conf

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.hooks.settings import load_settings
from airflow_trainer_provider.hooks.task import identity_of_task
from airflow_trainer_provider.triggers.unread_lines import lines_are_written

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


async def ready_to_fire(trigger: BaseTrigger, begun: float) -> None:
    """Wait until the trigger's event loses neither the task's try nor lines of its log.

    :param trigger: that is about to fire. It has no task instance where no triggerer runs it, as in ``dag.test()``.
    :param begun: when it began, on the clock of :func:`time.monotonic`.
    """
    if trigger.task_instance is not None:
        # Where Airflow's configuration is wrong, the event says so.
        with suppress(SpecError):
            await worker_is_gone(begun)
            await lines_are_written(identity_of_task(trigger.task_instance))


async def worker_is_gone(begun: float) -> None:
    """Wait for as long as the worker that deferred the task takes to end, and the scheduler to know of it.

    A scheduler that hears of that end only while the task runs again takes the task for killed, and fails its try. The
    worker itself notices the end of its process up to ``[workers] min_heartbeat_interval`` late. Airflow says nowhere
    whether the scheduler knows, so that the rest is a setting.

    :param begun: when the trigger began, on the clock of :func:`time.monotonic`.
    :raises SpecError: the setting is wrong.
    """
    interval = conf.getint("workers", "min_heartbeat_interval", fallback=5)
    noted_at = begun + interval + load_settings().worker_exit_seconds
    await asyncio.sleep(max(0.0, noted_at - time.monotonic()))
