"""The place of a task's job, in Airflow's task state store: backend, connection and namespace.

The store keeps it from one try to the next, as XCom does not. The fields of a later try may name another place, or be
refused. Whoever starts or ends the task's job then looks where the last job was submitted. Airflow has the store from
3.3 on; without it, the fields alone say where the job is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
    place = JobPlace(**value)
    texts = all(isinstance(each, str) or each is None for each in place)
    return place if texts and place.backend else None


def noted_place(context: Context) -> JobPlace | None:
    """Where the task has submitted its last job; None where it has not, or nothing notes it.

    :param context: of any try of the task, in its process.
    """
    store: Any = context.get("task_state_store")
    if store is None:
        return None
    try:
        return parse_place(store.get(KEY))
    except Exception as error:
        log.warning("Where an earlier try has submitted its job could not be read from the task's state: %s", error)
        return None


def note_place(context: Context, place: JobPlace) -> None:
    """Note where the task is about to submit a job.

    :param context: of the try.
    :param place: the job's place.
    """
    store: Any = context.get("task_state_store")
    if store is None:
        return
    try:
        from airflow.sdk.execution_time.context import NEVER_EXPIRE

        store.set(KEY, place._asdict(), retention=NEVER_EXPIRE)
    except Exception as error:
        # The job can be found without the note, unless the fields of the next try are others.
        log.warning("Where the job is submitted could not be noted in the task's state: %s", error)
