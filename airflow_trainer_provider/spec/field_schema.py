"""The JSON schema of single fields of a spec, for forms."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.spec.job import TrainJobSpec

#: Name of a number's bound in some of pydantic's types -> its name in JSON schema.
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_KEPT = frozenset({*_BOUNDS.values(), "enum", "maxLength", "minLength", "maxItems", "minItems", "items"})
#: The fields of a resource; in a form one number or quantity sets both.
_AMOUNT = frozenset({"requests", "limits"})
_PARAMETER = re.compile(r":param (\w+):\s*(.*?)(?=\n:param |\Z)", re.DOTALL)


@dataclass(frozen=True)
class FieldSchema:
    """The schema, the default and the description of a field.

    :param schema: the JSON schema of a value.
    :param default: the spec's default; None if there is none.
    :param description: a help text; empty if the spec does not describe the field.
    """

    schema: dict[str, Any]
    default: Any = None
    description: str = ""


def field_schema(path: Sequence[str]) -> FieldSchema:
    """The schema of a field, with the types that a user can enter in a form, and without null.

    :param path: the path of a field that the spec has.
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
        # The bounds of one type do not apply to the others.
        return {"type": types}
    first = next(each for each in branches if each.get("type", "object") == types[0])
    return {"type": types[0], **_bounds(first)}


def _bounds(node: Mapping[str, Any]) -> dict[str, Any]:
    named = {_BOUNDS.get(name, name): value for name, value in node.items()}
    is_plain = not named.get("items", {}).keys() - {"type"}
    return {name: value for name, value in named.items() if name in _KEPT and (name != "items" or is_plain)}


def _description(holder: Mapping[str, Any], part: str) -> str:
    """A field's description in the docstring of its model, else in the job's, else in that of a base model."""
    fields = (holder.get("properties") or {}).keys()
    extended = (node for node in _whole()["$defs"].values() if (node.get("properties") or {}).keys() < fields)
    found = (_descriptions(node).get(part) for node in (holder, _whole(), *extended))
    return next(filter(None, found), "")


def _descriptions(node: Mapping[str, Any]) -> dict[str, str]:
    """Name of a field -> its description in the docstring of the model."""
    found = _PARAMETER.findall(node.get("description", ""))
    return {name: " ".join(text.replace("``", "").split()) for name, text in found}
