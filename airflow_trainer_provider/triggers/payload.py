"""What a trigger's event carries. Airflow writes each event into the logs, and a function's value can be large."""

from __future__ import annotations

import reprlib
from typing import Any

_LONGEST = 8192


class Payload(dict[str, Any]):
    """A mapping of JSON values whose text is cut where it is long."""

    def __repr__(self) -> str:
        """The text; of a long one the first keys and parts of their values."""
        text = super().__repr__()
        return text if len(text) <= _LONGEST else reprlib.repr(dict(self))
