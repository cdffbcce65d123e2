"""The place of a task's job, in Airflow's task state store: backend, connection and namespace.

The store keeps it from one try to the next, as XCom does not. The fields of a later try may name another place, or be
refused. Whoever starts or ends the task's job then looks where the last job was submitted. Airflow has the store from
3.3 on; without it, the fields alone say where the job is.
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

#: What the store calls it.
KEY = "trainer_place"


def parse_place(value: Any) -> JobPlace | None:
    """Read a place as it came out of the store.

    :param value: any JSON value: whoever may edit the task's state may have written it.
    :return: None where it is no place.
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
    """Where the task has submitted its last job; None where it has not, or Airflow has no store.

    :param context: of any try of the task, in its process.
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
    """Note where the task is about to submit a job.

    :param context: of the try.
    :param place: the job's place.
    :raises SubmitError: the store does not take it. That of a try that is out of date takes nothing.
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
    """Forget where the task has submitted its job, of which nothing is left: it may be cleared once that place is gone.

    :param context: of the try that has succeeded.
    """
    store: Any = context.get("task_state_store")
    if store is None:
        return
    try:
        store.delete(KEY)
    except Exception as error:
        log.info("Where the job was submitted stays in the task's state: %s", error)
