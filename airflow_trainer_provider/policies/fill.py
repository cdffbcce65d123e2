"""Fills in values from policies: defaults where a job has no value, and locked values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_trainer_provider.policies.field_path import ANY, FieldPath
from airflow_trainer_provider.policies.library import PolicyFile
from airflow_trainer_provider.presets.merge import Merged, fill, has_size

#: Fields that set the number of nodes: a value in one of them counts for all.
_SIZES = frozenset({"num_nodes", "num_workers", "elastic"})


def fill_in(policies: Sequence[PolicyFile], asked: Merged) -> None:
    """Fill in defaults and locked values; the first policy with a value for a field takes precedence.

    :param policies: the policies that apply to the job.
    :param asked: the fields of the job, as plain values. They are changed.
    """
    for each in policies:
        for rule in each.policy.rules:
            value = rule.default if rule.locked is None else rule.locked
            for place in _empty(asked.fields, rule.path) if value is not None else ():
                fill(asked, place, value, f"policy {each.file}")


def _empty(fields: Mapping[str, Any], path: FieldPath) -> list[FieldPath]:
    """The places at a path that have no value, and can have one."""
    if path[0] in _SIZES and has_size(fields) and (len(path) == 1 or path[0] not in fields):
        return []
    return [place for place, value in _places(fields, path) if value is None]


def _places(fields: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """The places at a path, including one whose mapping does not exist yet. ``*`` stands for the existing keys."""
    key, rest = path[0], path[1:]
    if fields is None and ANY not in path:
        yield path, None
    if not isinstance(fields, Mapping):
        return
    for each in fields if key == ANY else [key]:
        below = fields.get(each)
        for place, value in _places(below, rest) if rest else [((), below)]:
            yield (each, *place), value
