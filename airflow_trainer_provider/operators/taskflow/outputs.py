"""Pushes the keys of a returned dict as separate XComs, without overwriting the provider's XComs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The XCom keys that the provider uses for a job, and the prefix of Airflow's keys for links.
_OWN_KEYS = frozenset({"job", "request", "status", "progress", "failure", "summary"})
_LINKS = "_link_"


def keep_own_keys(ti: Any, task: Any, value: Any) -> None:
    """Push a value with ``multiple_outputs`` here, if Airflow itself would overwrite the provider's XComs with it.

    :param ti: the task instance. Its XCom gets the keys that are not the provider's; Airflow still pushes the whole
        value.
    :param task: the operator; ``multiple_outputs`` is switched off if the keys were pushed here.
    :param value: the function's value.
    """
    if not (task.multiple_outputs and task.do_xcom_push and isinstance(value, Mapping)):
        return
    own = [key for key in value if key in _OWN_KEYS or key.startswith(_LINKS)]
    if not own:
        return
    task.log.error(
        "The function's value has keys under which XCom has what the provider knows of the job: %s. They are not "
        "pushed one by one; return_value has them. Rename them, or set multiple_outputs=False.",
        ", ".join(own),
    )
    for key in value:
        if key not in own:
            ti.xcom_push(key=key, value=value[key])
    task.multiple_outputs = False
