"""Builds text in the Common Expression Language, as the API server evaluates it.

https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from airflow_trainer_provider.policies.amounts import amount
from airflow_trainer_provider.policies.field_path import ANY, FieldPath

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Reserved words of the language.
_RESERVED = frozenset(
    {"as", "const", "else", "false", "for", "function", "if", "import", "in", "namespace", "null", "true"}
)
_THOUSAND = Decimal(1000)
#: The text of an expression for a value -> the text of a condition.
Condition = Callable[[str], str]


def literal(value: Any) -> str:
    """The literal of a string, a number or a boolean, or of a list of them.

    :param value: a plain value.
    """
    # JSON's escape sequences are also valid in CEL.
    return json.dumps(value, ensure_ascii=False)


def optional(start: str, path: Sequence[str]) -> str:
    """The optional value at a path; empty where a part of the path is missing.

    :param start: an expression, such as ``object``, or an optional value.
    :param path: without ``*``.
    """
    return start + "".join(
        f".?{part}" if _NAME.fullmatch(part) and part not in _RESERVED else f"[?{literal(part)}]" for part in path
    )


def if_given(value: str, condition: Condition) -> str:
    """Whether an optional value is absent or meets a condition.

    :param value: an optional value.
    :param condition: of the value.
    """
    return f"{value}.optMap(v, {condition('v')}).orValue(true)"


def given_and(value: str, condition: Condition) -> str:
    """Whether an optional value is present and meets a condition.

    :param value: an optional value.
    :param condition: of the value.
    """
    return f"{value}.optMap(v, {condition('v')}).orValue(false)"


def holds_for(value: str, condition: Condition) -> str:
    """A condition for a value that is a longer expression.

    :param value: an expression.
    :param condition: of the value.
    """
    return f"[{value}].all(v, {condition('v')})"


def all_of(conditions: Sequence[str]) -> str:
    """Whether all conditions hold.

    :param conditions: at least one.
    """
    return conditions[0] if len(conditions) == 1 else f"({' && '.join(conditions)})"


def any_of(conditions: Sequence[str]) -> str:
    """Whether at least one of the conditions holds.

    :param conditions: at least one.
    """
    return conditions[0] if len(conditions) == 1 else f"({' || '.join(conditions)})"


def for_each(
    start: str, path: FieldPath, condition: Condition, *, spared: str | None = None, variable: str = "x"
) -> str:
    """A condition for each value at a path.

    :param start: an expression, or an optional value.
    :param path: ``*`` stands for the items of a list.
    :param condition: of the optional value at the end of the path.
    :param spared: the name of items that are exempt from the condition.
    :param variable: the variable for an item; the variables for items within it are longer.
    """
    if ANY not in path:
        return condition(optional(start, path))
    at, item = path.index(ANY), variable
    below = for_each(item, path[at + 1 :], condition, spared=spared, variable=variable + variable[0])
    if spared and ANY not in path[at + 1 :]:
        below = f'({item}.?name.orValue("") == {literal(spared)} || {below})'
    return f"{optional(start, path[:at])}.orValue([]).all({item}, {below})"


def compares(value: str, operator: str, bound: Any) -> str:
    """A comparison of numbers, or of quantities.

    :param value: of any type.
    :param operator: e.g. ``<=``.
    :param bound: a number or a quantity.
    """
    text = _as_text(value)
    return f"(isQuantity({text}) && quantity({text}).compareTo(quantity({literal(str(bound))})) {operator} 0)"


def is_countable(number: Decimal) -> bool:
    """Whether :func:`is_on_step` accepts a number: it is a whole number of thousandths within 64 bits.

    :param number: any.
    """
    thousandths = abs(number) * _THOUSAND
    return thousandths < 2**63 and thousandths % 1 == 0


def is_on_step(first: Decimal, step: Decimal, value: str) -> str:
    """Whether the distance of a value from the first value is a whole number of steps.

    :param first: a countable number.
    :param step: likewise.
    :param value: of any type.
    """
    # Quantities have no remainder operator. Their number of units, or of thousandths, is one of the two whole numbers
    # that are nearest to their approximation.
    is_whole = first % 1 == 0 and step % 1 == 0
    scale, scaled, unit = (Decimal(1), "", "") if is_whole else (_THOUSAND, f" * {_THOUSAND}.0", ' + "m"')
    text = _as_text(value)
    near = f"[-0.5, 0.5].map(h, int(quantity({text}).asApproximateFloat(){scaled} + h))"
    same = f"quantity(string(n){unit}).compareTo(quantity({text})) == 0"
    is_on = f"(n - {int(first * scale)}) % {int(step * scale)} == 0"
    return f"(isQuantity({text}) && {near}.exists(n, {same} && {is_on}))"


def is_one_of(value: str, allowed: Sequence[Any]) -> str:
    """Whether a value is equal to one of several values, where ``"2"`` and ``2`` are equal.

    :param value: of any type except lists and mappings.
    :param allowed: texts, numbers and booleans.
    """
    text, texts = _as_text(value), [_text(each) for each in allowed]
    same = f"{text} in {literal(texts)}"
    amounts = [each for each in texts if amount(each) is not None]
    if not amounts:
        return same
    equal = f"quantity(a).compareTo(quantity({text})) == 0"
    return f"({same} || (isQuantity({text}) && {literal(amounts)}.exists(a, {equal})))"


def matches(value: str, pattern: str) -> str:
    """Whether a whole string matches a pattern.

    :param value: of any type except lists and mappings.
    :param pattern: a regular expression of RE2.
    """
    return f"{_as_text(value)}.matches({literal(f'^(?:{pattern})$')})"


def _as_text(value: str) -> str:
    # Without dyn(), the type checker assumes that the result of an optional index is a string, and there is no overload
    # for numbers.
    return f"string(dyn({value}))"


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
