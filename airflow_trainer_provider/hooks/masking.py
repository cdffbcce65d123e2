"""Applies Airflow's secrets masker to XCom values and trigger events, which Airflow stores unmasked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import redact


def masked(value: Any) -> Any:
    """Mask the secrets that are registered with Airflow in this process, in all texts of a JSON value.

    Unlike Airflow's own function, it does not mask by field names: the results of a script can have any names.

    :param value: the value. It is not changed.
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: masked(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(masked(each) for each in value)
    return value
