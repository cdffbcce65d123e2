"""The keys of a returned dict as XCom of their own, beside the provider's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The keys under which the provider pushes what it knows of a job; links begin as Airflow names them.
_OWN_KEYS = frozenset({"job", "request", "status", "progress", "failure", "summary"})
_LINKS = "_link_"


def keep_own_keys(ti: Any, task: Any, value: Any) -> None:
    """Push a function's value with ``multiple_outputs`` here, where Airflow would write over the provider's own XCom.

    :param ti: the task instance, whose XCom gets the other keys. Airflow pushes the whole value all the same.
    :param task: its operator; with such a value it has no ``multiple_outputs`` any more.
    :param value: of the function.
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
