"""Finds the pods and containers in a user's own manifest of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.policies.field_path import ANY, FieldPath, values_at
from airflow_trainer_provider.policies.targets import Pods, Target, replica_type
from airflow_trainer_provider.spec.values.plain import Place

_CONTAINERS = ("containers", "initContainers")


@dataclass(frozen=True)
class PodSpec:
    """The spec of pods.

    :param place: in the object.
    :param spec: of the pods.
    :param is_whole: whether a field that is missing here is not set elsewhere.
    :param is_launcher: whether the pods do not train.
    """

    place: Place
    spec: Mapping[str, Any]
    is_whole: bool
    is_launcher: bool


@dataclass(frozen=True)
class Container:
    """A container of pods.

    :param place: in the object.
    :param container: the container in the object.
    :param pod: the spec of its pods.
    :param is_training: whether it is the training's container.
    """

    place: Place
    container: Mapping[str, Any]
    pod: PodSpec
    is_training: bool


def pods_of(target: Target, manifest: Mapping[str, Any], role: str = ANY) -> Iterator[PodSpec]:
    """The specs of the pods.

    :param target: what is known of the object's kind.
    :param manifest: the object.
    :param role: the role of the replicas; ``*`` for all. An object that does not give the roles of its pods has no pods
        of a single role.
    """
    for pods in target.pods:
        for place, spec in values_at(manifest, pods.path):
            names = _names(manifest, pods, place)
            is_meant = role == ANY or (pods.is_map and replica_type(role) in names)
            if isinstance(spec, Mapping) and is_meant:
                yield PodSpec(place, spec, pods.is_whole, pods.launcher in names)


def containers_of(target: Target, pod: PodSpec) -> Iterator[Container]:
    """The containers of pods, including those that run before the training.

    :param target: what is known of the object's kind.
    :param pod: the spec of the pods.
    """
    for field in _CONTAINERS:
        listed = pod.spec.get(field)
        for at, each in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(each, Mapping):
                is_training = at == 0 if target.container is None else each.get("name") == target.container
                yield Container((*pod.place, field, at), each, pod, is_training and field == _CONTAINERS[0])


def only_value(value: Any, path: FieldPath) -> Any:
    """The value at a path without ``*``; None where there is none.

    :param value: made of plain values.
    :param path: to the value.
    """
    return next((found for _, found in values_at(value, path)), None)


def _names(manifest: Mapping[str, Any], pods: Pods, place: Place) -> list[str]:
    """The possible names of the replicas of pods: the keys on the path to them, or the names of the items."""
    if pods.is_map:
        return [part for part in place if isinstance(part, str)]
    items = [tuple(map(str, place[: at + 1])) for at, part in enumerate(place) if isinstance(part, int)]
    return [str(only_value(manifest, (*item, "name"))) for item in items]
