"""The payload of a trigger's event. Airflow writes each event to the logs, and a function's value can be large."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_trainer_provider.text.printable import shorten
from airflow_trainer_provider.text.storable import storable

_LONGEST = 8192
#: Characters of a message. An API server may answer with more, and the database has a row for each event.
_LONGEST_MESSAGE = 64 * 1024


class Payload(dict[str, Any]):
    """A mapping of JSON values that shortens its text in logs."""

    def __repr__(self) -> str:
        """The mapping as text; a long one is shortened to the first keys and parts of their values."""
        text = super().__repr__()
        return text if len(text) <= _LONGEST else reprlib.repr(dict(self))


def event_of(values: Mapping[str, Any]) -> TriggerEvent:
    """The event of a trigger. An event that cannot be stored would end this triggerer, and each one started later.

    :param values: JSON values; parts that the database cannot store are replaced, and a long ``message`` is cut.
    """
    payload = Payload(storable(dict(values)))
    if "message" in payload:
        payload["message"] = shorten(str(payload["message"]), _LONGEST_MESSAGE)
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
