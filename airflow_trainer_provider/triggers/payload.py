"""What a trigger's event carries. Airflow writes each event into the logs, and a function's value can be large."""

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
    """A mapping of JSON values whose text is cut where it is long."""

    def __repr__(self) -> str:
        """The text; of a long one the first keys and parts of their values."""
        text = super().__repr__()
        return text if len(text) <= _LONGEST else reprlib.repr(dict(self))


def event_of(values: Mapping[str, Any]) -> TriggerEvent:
    """The event of a trigger. One that cannot be stored would end the triggerer, and each that starts after it.

    :param values: JSON values; what cannot be stored of them is replaced, and a long ``message`` is cut.
    """
    payload = Payload(storable(dict(values)))
    if "message" in payload:
        payload["message"] = shorten(str(payload["message"]), _LONGEST_MESSAGE)
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
