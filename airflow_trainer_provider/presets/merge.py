"""Lays parts of a spec over each other, and keeps which field came from which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_trainer_provider.spec.values.plain import Place, path

#: Each of these says how many nodes there are: one in a later part replaces those in earlier ones.
_SIZES: tuple[Place, ...] = (("num_nodes",), ("num_workers",), ("elastic",), ("replicas", "worker", "replicas"))
#: Its values are whole, whatever they are made of: a variable has one source.
_WHOLE_VALUES = "env"
#: More fields of a part are counted in the log, and not named.
_MOST_NAMED = 20


@dataclass
class Merged:
    """Fields of a spec, and where they come from.

    :param fields: of the spec.
    :param sources: place of a value, from the outside in -> name of the part that it comes from. A mapping has one
        entry for each of its values.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    sources: dict[Place, str] = field(default_factory=dict)

    def is_from(self, *sources: str) -> bool:
        """Whether all fields come from some parts.

        :param sources: their names.
        """
        return set(self.sources.values()) <= {*sources}

    def summary(self) -> str:
        """Which fields come from which part, in one line, without their values."""
        places: dict[str, list[str]] = {}
        for place, source in self.sources.items():
            places.setdefault(source, []).append(path(place))
        return "; ".join(f"from {source}: {_listed(found)}" for source, found in places.items())


def merge(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Merged:
    """Merge parts of a spec; what stands in a later one wins.

    Mappings are merged field by field, ``env`` name by name. Any other value, a list too, is replaced as a whole.

    :param parts: (name for people, fields made of plain values), in order.
    """
    merged = Merged()
    for name, fields in parts:
        _drop_sizes(merged, fields)
        merged.fields = _laid(merged, merged.fields, fields, (), name)
    return merged


def fill(merged: Merged, place: Place, value: Any, source: str) -> None:
    """Set one value.

    :param merged: the fields, which are changed.
    :param place: of the value, from the outside in.
    :param value: a plain value.
    :param source: the name of the part that it comes from.
    """
    part: Any = value
    for key in reversed(place):
        part = {key: part}
    merged.fields = _laid(merged, merged.fields, part, (), source)


def has_size(fields: Mapping[str, Any]) -> bool:
    """Whether fields of a spec say how many nodes there are.

    :param fields: made of plain values.
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
    """A copy of what lies under fields, with these over it. None of the given mappings is changed."""
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
