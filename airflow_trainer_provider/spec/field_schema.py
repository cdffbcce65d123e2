"""The JSON schema of single fields of a spec, for forms."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.spec.job import TrainJobSpec

#: What pydantic calls the bounds of a number in some of its types -> in JSON schema.
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_KEPT = frozenset({*_BOUNDS.values(), "enum", "maxLength", "minLength", "maxItems", "minItems", "items"})
#: One number or quantity stands for both.
_AMOUNT = frozenset({"requests", "limits"})
_PARAMETER = re.compile(r":param (\w+):\s*(.*?)(?=\n:param |\Z)", re.DOTALL)


@dataclass(frozen=True)
class FieldSchema:
    """What a field may hold.

    :param schema: JSON schema of a value.
    :param default: of the spec; None for none.
    :param description: for people; empty where the spec does not describe the field.
    """

    schema: dict[str, Any]
    default: Any = None
    description: str = ""


def field_schema(path: Sequence[str]) -> FieldSchema:
    """The schema of a field. Of several types, one that a person writes in a form is taken, and no null.

    :param path: of the field, which the spec has.
    """
    node, description = _whole(), ""
    default: Any = None
    for part in path:
        holder = next(each for each in _branches(node) if _has(each, part))
        node = (holder.get("properties") or {}).get(part) or holder["additionalProperties"]
        description = _description(holder, part)
        default = node.get("default")
    return FieldSchema(_simple(node), None if default in ({}, []) else default, description)


@functools.cache
def _whole() -> dict[str, Any]:
    return TrainJobSpec.model_json_schema()


def _branches(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The types that a value may have, without null."""
    if "$ref" in node:
        yield from _branches(_whole()["$defs"][node["$ref"].rpartition("/")[2]])
        return
    alternatives = node.get("anyOf") or node.get("oneOf")
    for each in alternatives or ():
        yield from _branches(each)
    if not alternatives and node.get("type") != "null":
        yield node


def _has(node: Mapping[str, Any], part: str) -> bool:
    return part in (node.get("properties") or {}) or isinstance(node.get("additionalProperties"), Mapping)


def _simple(node: Mapping[str, Any]) -> dict[str, Any]:
    branches = [*_branches(node)]
    if any((each.get("properties") or {}).keys() == _AMOUNT for each in branches):
        return {"type": "string"}
    types = list(dict.fromkeys(each.get("type", "object") for each in branches))
    if len(types) > 1 and "object" in types:
        types.remove("object")
    if len(types) > 1:
        # Bounds of one type are none of the others.
        return {"type": types}
    first = next(each for each in branches if each.get("type", "object") == types[0])
    return {"type": types[0], **_bounds(first)}


def _bounds(node: Mapping[str, Any]) -> dict[str, Any]:
    named = {_BOUNDS.get(name, name): value for name, value in node.items()}
    is_plain = not named.get("items", {}).keys() - {"type"}
    return {name: value for name, value in named.items() if name in _KEPT and (name != "items" or is_plain)}


def _description(holder: Mapping[str, Any], part: str) -> str:
    """What the docstrings say of a field: that of its model, the job's for a group's field, or that of a base model."""
    fields = (holder.get("properties") or {}).keys()
    extended = (node for node in _whole()["$defs"].values() if (node.get("properties") or {}).keys() < fields)
    found = (_descriptions(node).get(part) for node in (holder, _whole(), *extended))
    return next(filter(None, found), "")


def _descriptions(node: Mapping[str, Any]) -> dict[str, str]:
    """Name of a field -> what the docstring of its model says."""
    found = _PARAMETER.findall(node.get("description", ""))
    return {name: " ".join(text.replace("``", "").split()) for name, text in found}
