"""The place of a task's job, in Airflow's task state store: backend, connection and namespace.

Unlike XCom, the store keeps the place from one try to the next. The fields of a later try may name another place, or be
refused. A process that starts or ends the task's job then looks in the place of the last submitted job. Airflow has the
store since 3.3; without the store, only the fields name the job's place.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_trainer_provider.errors import SpecError, SubmitError
from airflow_trainer_provider.hooks.backends import JobPlace

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

#: The key in the store.
KEY = "trainer_place"


def parse_place(value: Any) -> JobPlace | None:
    """Parse a place from the store.

    :param value: any JSON value, since users may edit a task's state.
    :return: the place; None if the value is not a valid place.
    """
    if not isinstance(value, Mapping) or value.keys() != set(JobPlace._fields):
        return None
    from airflow_trainer_provider.hooks.trainer import TrainerHook

    place = JobPlace(**value)
    try:
        return place if place.backend and TrainerHook(*place).name else None
    except SpecError:
        return None


def noted_place(context: Context) -> JobPlace | None:
    """Where the task has submitted its last job; None if it has submitted none, or if Airflow has no store.

    :param context: the context of any try of the task, in that try's process.
    :raises SubmitError: the store does not answer.
    """
    store: Any = context.get("task_state_store")
    if store is None:
        return None
    try:
        return parse_place(store.get(KEY))
    except Exception as error:
        raise SubmitError(
            f"Where an earlier try has submitted its job could not be read from the task's state ({error}). It may "
            "still train there: nothing was started."
        ) from error


def note_place(context: Context, place: JobPlace) -> None:
    """Store where the task is about to submit a job.

    :param context: the try's context.
    :param place: the job's place.
    :raises SubmitError: the store refuses the value, e.g. because a newer try has replaced this one.
    """
    store: Any = context.get("task_state_store")
    if store is None:
        return
    try:
        from airflow.sdk.execution_time.context import NEVER_EXPIRE

        store.set(KEY, place._asdict(), retention=NEVER_EXPIRE)
    except Exception as error:
        raise SubmitError(
            f"Where the job is submitted could not be noted in the task's state ({error}): nothing was started."
        ) from error


def forget_place(context: Context) -> None:
    """Remove the place of an acknowledged job, so that a task that is cleared later does not depend on that place.

    :param context: the context of the try that has succeeded.
    """
    store: Any = context.get("task_state_store")
    if store is None:
        return
    try:
        store.delete(KEY)
    except Exception as error:
        log.info("Where the job was submitted stays in the task's state: %s", error)
