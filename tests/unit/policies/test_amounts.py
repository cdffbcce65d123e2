"""Numbers and quantities are compared by what they amount to."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_trainer_provider.policies.amounts import amount, same


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, 2),
        (0.5, Decimal("0.5")),
        ("500m", Decimal("0.5")),
        ("4Gi", 4 * 2**30),
        ("1Pi", 2**50),
        ("2E", 2 * 10**18),
        ("1e3", 1000),
        ("-3", -3),
        ("gpu", None),
        ("", None),
        ("nan", None),
        ("1e999999", None),
        (True, None),
        ([1], None),
        (None, None),
    ],
)
def test_an_amount(value, expected):
    assert amount(value) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (2, "2", True),
        ("1Gi", "1024Mi", True),
        ("a", "a", True),
        ("a", "b", False),
        (["1", "x"], (1, "x"), True),
        (["1"], ["1", "2"], False),
        ({"a": "1"}, {"a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
    ],
)
def test_values_that_mean_the_same(one, other, expected):
    assert same(one, other) is expected
