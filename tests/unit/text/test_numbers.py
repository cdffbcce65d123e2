"""Every number has its place in JSON, and is read from it again."""

from __future__ import annotations

import json
import math

import pytest

from airflow_trainer_provider.text.numbers import NOT_FINITE, json_number


@pytest.mark.parametrize(
    ("number", "shown"),
    [(1.5, 1.5), (-0.0, -0.0), (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")],
)
def test_a_number_that_json_has_not_is_text(number, shown):
    written = json.loads(json.dumps(json_number(number), allow_nan=False))

    assert written == shown
    assert str(NOT_FINITE.get(written, written)) == str(number)
