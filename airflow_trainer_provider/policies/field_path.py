"""The path of a rule's field, such as ``resources_per_node.gpu`` or ``replicas.*.image``."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks import MODULES, get_framework
from airflow_trainer_provider.spec import TrainJobSpec
from airflow_trainer_provider.spec.misplaced import way_out
from airflow_trainer_provider.spec.validation import choice

#: The parts of a path, from the outside in.
FieldPath = tuple[str, ...]
#: Stands for any key of a mapping, and for any item of a list.
ANY = "*"
#: A user's own manifest: a field of the operator that no spec has.
MANIFEST = "manifest"
#: Fields that hold a name, or a mapping with a name under this key: a rule for the field applies to the name.
NAMED: Mapping[FieldPath, str] = {
    ("launcher",): "name",
    ("runtime_ref",): "name",
    ("scheduling", "gang"): "scheduler",
}
_PART = re.compile(r"\.?([^.\[\]'\"]+)|\['([^']+)'\]|\[(\*)\]")
_ALLOWED = "the path of a field of the spec, e.g. resources_per_node.gpu, replicas.*.image or env.WANDB_MODE"


def parse_path(text: str) -> FieldPath:
    """Read the path of a field, and check whether the spec has it.

    :param text: parts with dots between them. ``*`` stands for any key or item; a key that contains dots is written
        ``['a.b/c']``.
    :raises SpecError: it is not a path, or the spec has no such field.
    """
    parts, position = [], 0
    for match in _PART.finditer(text):
        if match.start() != position:
            break
        parts.append(match[1] or match[2] or match[3])
        position = match.end()
    if not parts or position != len(text) or text.startswith("."):
        raise SpecError([Problem("field", text, _ALLOWED, "Correct the path.")])
    path = tuple(parts)
    if path != (MANIFEST,):
        _check(path, text)
    return path


def _check(path: FieldPath, text: str) -> None:
    kinds: list[Any] = [TrainJobSpec]
    for at, part in enumerate(path):
        below = [found for kind in kinds for found in _below(kind, part)]
        if not below:
            raise SpecError([_unknown(text, path[: at + 1], kinds)])
        kinds = below
        if at == 1 and path[0] == "replicas" and part not in (ANY, *_roles()):
            raise SpecError([choice("field", text, (ANY, *_roles()), f"There is no role {part!r}.")])


def _unknown(text: str, path: FieldPath, kinds: list[Any]) -> Problem:
    """The problem of a path whose last part does not exist in any of the types."""
    part = path[-1]
    fields = [name for kind in kinds for name in _names(kind)]
    if not fields:
        return Problem("field", text, _ALLOWED, f"Drop {part!r} and what stands behind it: that field has no parts.")
    near = choice("field", part, fields, way_out(path) or "Use one of these.")
    return Problem("field", text, near.allowed, near.fix)


@cache
def _roles() -> tuple[str, ...]:
    """The roles of all frameworks."""
    return tuple(dict.fromkeys(role.name for name in MODULES for role in get_framework(name).roles))


def _below(kind: Any, part: str) -> list[Any]:
    """The possible types of a part of a type; empty where it has no such part."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return [Any]
    if origin is Annotated:
        return _below(arguments[0], part)
    if origin in (Union, types.UnionType):
        return [found for argument in arguments for found in _below(argument, part)]
    if _is_model(kind):
        return [kind.model_fields[part].annotation] if part in kind.model_fields else []
    return _of_container(origin, arguments, part)


def _of_container(origin: Any, arguments: tuple[Any, ...], part: str) -> list[Any]:
    """The type of a mapping's values, or of a list's items."""
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [arguments[1]]
    return [arguments[0]] if origin in (tuple, list) and (part == ANY or part.isdecimal()) else []


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _names(kind: Any) -> list[str]:
    if _is_model(kind):
        return [*kind.model_fields]
    return [name for argument in get_args(kind) for name in _names(argument)]


def values_at(value: Any, path: FieldPath) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The values at a path, each with its place; no values where a part is missing.

    :param value: made of plain values.
    :param path: where ``*`` stands for each existing key or item.
    """
    if not path:
        yield (), value
        return
    for key in _keys(value, path[0]):
        for place, found in values_at(value[key], path[1:]):
            yield (key, *place), found


def _keys(value: Any, part: str) -> list[Any]:
    if isinstance(value, Mapping):
        return [key for key in value if part in (ANY, key)]
    if isinstance(value, (list, tuple)):
        return [at for at in range(len(value)) if part in (ANY, str(at))]
    return []
