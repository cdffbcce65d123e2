"""Numbers that JSON has none for, as text."""

from __future__ import annotations

import json
import math

#: The text of each, as Python's own JSON writes them -> the number.
NOT_FINITE = {json.dumps(number): number for number in (math.nan, math.inf, -math.inf)}


def json_number(number: float) -> float | str:
    """A number as it is where JSON has it; ``NaN``, ``Infinity`` or ``-Infinity`` for the others.

    :param number: any.
    """
    return number if math.isfinite(number) else json.dumps(number)
