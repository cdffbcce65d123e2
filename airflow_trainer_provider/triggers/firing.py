"""The wait of a trigger between the end of its work and its event, which resumes the task."""

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
    """Wait until the trigger can fire without the loss of the task's try or of log lines.

    :param trigger: the trigger that is about to fire. Without a triggerer, as in ``dag.test()``, it has no task
        instance.
    :param begun: when the trigger began, on the clock of :func:`time.monotonic`.
    """
    if trigger.task_instance is not None:
        # If Airflow's configuration is wrong, the event already has the error.
        with suppress(SpecError):
            await worker_is_gone(begun)
            await lines_are_written(identity_of_task(trigger.task_instance))


async def worker_is_gone(begun: float) -> None:
    """Wait until the worker that deferred the task has ended, and the scheduler has recorded its end.

    If the scheduler learns of that end only after the task has resumed, it considers the task killed and fails its try.
    The worker notices the end of the task's process up to ``[workers] min_heartbeat_interval`` late. Airflow does not
    show whether the scheduler has recorded the end, so the remaining time is a setting.

    :param begun: when the trigger began, on the clock of :func:`time.monotonic`.
    :raises SpecError: the setting has an invalid value.
    """
    interval = conf.getint("workers", "min_heartbeat_interval", fallback=5)
    noted_at = begun + interval + load_settings().worker_exit_seconds
    await asyncio.sleep(max(0.0, noted_at - time.monotonic()))
