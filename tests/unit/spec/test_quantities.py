"""Kubernetes' quantities, and what they amount to."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_trainer_provider.spec.compute import parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", 2),
        ("0.5", Decimal("0.5")),
        ("500m", Decimal("0.5")),
        ("1k", 1000),
        ("1.5Gi", 1.5 * 2**30),
        ("1G", 10**9),
        ("3Ti", 3 * 2**40),
    ],
)
def test_a_quantity_is_its_number_times_its_suffix(text, amount):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "4 Gi", "4GB", "-1", "1e3", "1,5"])
def test_what_is_none(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the text is all it says
        parse_quantity(text)
