"""Compares values of a spec: numbers, quantities of Kubernetes, and everything else by its value."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from airflow_trainer_provider.spec.compute import parse_quantity

#: Suffixes that Kubernetes accepts in addition to those that a spec accepts.
_MORE = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "P": Decimal(10**15), "E": Decimal(10**18)}
_MORE |= {"Pi": Decimal(2**50), "Ei": Decimal(2**60)}


def amount(value: Any) -> Decimal | None:
    """The number that a value represents; for a quantity, the amount in base units. None for a value that is not a
    number.

    :param value: a plain value.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = str(value).strip()
    for suffix, scale in _MORE.items():
        if text.endswith(suffix):
            return _number(text.removesuffix(suffix), scale)
    try:
        return parse_quantity(text)
    except ValueError:
        # Negative numbers, and those with an exponent.
        return _number(text, Decimal(1))


def _number(text: str, scale: Decimal) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number * scale if number.is_finite() and abs(number.adjusted()) < 100 else None


def same(one: Any, other: Any) -> bool:
    """Whether two values mean the same: ``2`` and ``"2"``, ``1Gi`` and ``1024Mi``.

    :param one: a plain value.
    :param other: likewise.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    amounts = amount(one), amount(other)
    return amounts[0] == amounts[1] if None not in amounts else one == other
