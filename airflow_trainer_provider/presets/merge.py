"""Merges parts of a spec, and records which field came from which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_trainer_provider.spec.values.plain import Place, path

#: The fields that set the number of nodes: one of them in a later part removes all others from earlier parts.
_SIZES: tuple[Place, ...] = (("num_nodes",), ("num_workers",), ("elastic",), ("replicas", "worker", "replicas"))
#: The mapping whose values are replaced as a whole, even if they are mappings: a variable has a single source.
_WHOLE_VALUES = "env"
#: How many fields of a part the log names; further fields are only counted.
_MOST_NAMED = 20


@dataclass
class Merged:
    """Fields of a spec, and their sources.

    :param fields: the spec's fields.
    :param sources: path of a value, from the outermost key -> name of the part that it comes from. A mapping has one
        entry for each of its values.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    sources: dict[Place, str] = field(default_factory=dict)

    def is_from(self, *sources: str) -> bool:
        """Whether all fields come from the given parts.

        :param sources: the names of the parts.
        """
        return set(self.sources.values()) <= {*sources}

    def summary(self) -> str:
        """One line that names the fields from each part, without their values."""
        places: dict[str, list[str]] = {}
        for place, source in self.sources.items():
            places.setdefault(source, []).append(path(place))
        return "; ".join(f"from {source}: {_listed(found)}" for source, found in places.items())


def merge(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Merged:
    """Merge parts of a spec; the values of later parts take precedence.

    Mappings are merged field by field, and ``env`` by name. All other values, including lists, are replaced as a whole.

    :param parts: (name for messages, fields as plain values), in order.
    """
    merged = Merged()
    for name, fields in parts:
        _drop_sizes(merged, fields)
        merged.fields = _laid(merged, merged.fields, fields, (), name)
    return merged


def fill(merged: Merged, place: Place, value: Any, source: str) -> None:
    """Set one value.

    :param merged: the fields, which are changed.
    :param place: the path of the value, from the outermost key.
    :param value: a plain value.
    :param source: the name of the part that the value comes from.
    """
    part: Any = value
    for key in reversed(place):
        part = {key: part}
    merged.fields = _laid(merged, merged.fields, part, (), source)


def has_size(fields: Mapping[str, Any]) -> bool:
    """Whether the fields of a spec set the number of nodes.

    :param fields: the fields, as plain values.
    """
    return any(_has(fields, place) for place in _SIZES)


def _drop_sizes(merged: Merged, fields: Mapping[str, Any]) -> None:
    kept = [place for place in _SIZES if _has(fields, place)]
    for place in _SIZES if kept else ():
        if place not in kept and _has(merged.fields, place):
            merged.fields = _without(merged.fields, place)
            _forget(merged, place)


def _without(fields: Mapping[str, Any], place: Place) -> dict[str, Any]:
    rest = {key: value for key, value in fields.items() if key != place[0]}
    return rest if len(place) == 1 else {**rest, str(place[0]): _without(fields[str(place[0])], place[1:])}


def _has(fields: Any, place: Place) -> bool:
    for key in place:
        fields = fields.get(key) if isinstance(fields, Mapping) else None
    return fields is not None


def _laid(
    merged: Merged, under: Mapping[str, Any], fields: Mapping[str, Any], place: Place, source: str
) -> dict[str, Any]:
    """Merge ``fields`` over ``under`` into a new mapping. The given mappings are not changed."""
    result = dict(under)
    is_whole = place[-1:] == (_WHOLE_VALUES,)
    for key, value in fields.items():
        here, found = (*place, key), result.get(key)
        if isinstance(value, Mapping) and isinstance(found, Mapping) and not is_whole:
            result[key] = _laid(merged, found, value, here, source)
            continue
        if key in result:
            _forget(merged, here)
        result[key] = value
        merged.sources.update(dict.fromkeys(_leaves(value, here, is_whole=is_whole), source))
    return result


def _leaves(value: Any, place: Place, *, is_whole: bool) -> list[Place]:
    if not isinstance(value, Mapping) or not value or is_whole:
        return [place]
    whole = place[-1] == _WHOLE_VALUES
    return [leaf for key, each in value.items() for leaf in _leaves(each, (*place, key), is_whole=whole)]


def _forget(merged: Merged, place: Place) -> None:
    for known in [each for each in merged.sources if each[: len(place)] == place]:
        del merged.sources[known]


def _listed(places: Sequence[str]) -> str:
    more = len(places) - _MOST_NAMED
    return ", ".join(places[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
