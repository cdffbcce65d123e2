"""Converts numbers that JSON cannot represent to text."""

from __future__ import annotations

import json
import math

#: The text that Python's own JSON module writes for such a number -> the number.
NOT_FINITE = {json.dumps(number): number for number in (math.nan, math.inf, -math.inf)}


def json_number(number: float) -> float | str:
    """The number itself where JSON can represent it; else ``NaN``, ``Infinity`` or ``-Infinity`` as text.

    :param number: any number.
    """
    return number if math.isfinite(number) else json.dumps(number)
