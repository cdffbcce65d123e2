"""The requirement of a rule for one value, as an expression."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import partial
from typing import Any

from airflow_trainer_provider.policies.amounts import amount
from airflow_trainer_provider.policies.export import cel
from airflow_trainer_provider.policies.policy import Rule

#: Rules that a missing value does not meet.
NEEDED = frozenset({"required", "locked"})
#: Rules that apply only to the training's container: a sidecar may need less.
TRAINING_ONLY = frozenset({"required", "min", "step"})
_COMPARED = {"min": ">=", "max": "<="}


class NotExported(Exception):
    """A rule cannot be expressed for a kind of objects. The text says why."""


def check(rule: Rule, kind: str) -> cel.Condition:
    """The condition for a value that is present.

    :param rule: the rule.
    :param kind: one of the rule's kinds; not ``forbidden``.
    """
    bound = getattr(rule, kind)
    if kind in _COMPARED:
        return partial(_compares, _COMPARED[kind], _whole(rule, bound))
    if kind == "step":
        return partial(cel.is_on_step, amount(_whole(rule, rule.min)) or Decimal(0), amount(bound) or Decimal(1))
    if kind == "pattern":
        return lambda value: cel.matches(value, bound)
    if kind == "required":
        return lambda value: "true"
    return lambda value: cel.is_one_of(value, [bound] if kind == "locked" else bound)


def demand(rule: Rule, kind: str, value: str) -> str:
    """The condition for an optional value of a job as a whole.

    :param rule: the rule.
    :param kind: one of the rule's kinds.
    :param value: an optional value.
    """
    if kind == "forbidden":
        return f"!{value}.hasValue()"
    if kind == "required":
        return f"{value}.hasValue()"
    if kind == "locked":
        return cel.given_and(value, check(rule, kind))
    return cel.if_given(value, check(rule, kind))


def demand_if_given(rule: Rule, kind: str, value: str) -> str:
    """The condition for an optional value that may also be set elsewhere.

    :param rule: the rule.
    :param kind: one of the rule's kinds; not ``required``.
    :param value: an optional value.
    """
    return demand(rule, kind, value) if kind == "forbidden" else cel.if_given(value, check(rule, kind))


def check_exportable(rule: Rule, kind: str) -> None:
    """Refuse a rule that cannot be expressed for any kind of objects.

    :raises NotExported: a default, a list or a mapping, or steps that are too small.
    """
    if kind == "default":
        raise NotExported("a default is filled in by the provider alone")
    if kind == "step":
        _check_step(rule)
    values = {"allowed": rule.allowed or (), "locked": (rule.locked,)}.get(kind, ())
    if not all(isinstance(value, (str, int, float)) for value in values):
        raise NotExported("lists and mappings are not compared")


def _check_step(rule: Rule) -> None:
    amounts = [each for each in map(amount, (rule.step, rule.min)) if each is not None]
    if rule.path[-1].endswith("_seconds") and amounts[0] % 1:
        raise NotExported("the objects hold whole seconds")
    if not all(map(cel.is_countable, amounts)):
        raise NotExported("an expression counts whole thousandths")


def _whole(rule: Rule, bound: Any) -> Any:
    """The bound for the values in the objects: whole seconds, rounded up, where a spec accepts fractions."""
    seconds = amount(bound) if rule.path[-1].endswith("_seconds") else None
    return bound if seconds is None else math.ceil(seconds)


def _compares(operator: str, bound: Any, value: str) -> str:
    return cel.compares(value, operator, bound)
