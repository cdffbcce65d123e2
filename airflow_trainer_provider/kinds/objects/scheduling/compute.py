"""The compute resources of the training's container, and its shared memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.spec import Resources
from airflow_trainer_provider.spec.compute import AUTO, parse_quantity
from airflow_trainer_provider.spec.values.devices import NVIDIA

_VOLUME = "trainer-shared-memory"
#: The folder in which PyTorch and other frameworks keep the data that their processes share.
SHARED_MEMORY = "/dev/shm"
_UNITS = {"Gi": 2**30, "Mi": 2**20, "Ki": 2**10, "": 1}


def lay_resources(spec: Manifest, container: Manifest, resources: Resources | None) -> None:
    """Override the resources of a replica's template with those of the replica, one by one.

    :param spec: of the pods.
    :param container: the training's container.
    :param resources: of the replica; None keeps those of the template.
    """
    if resources is None:
        return
    container["resources"] = _amounts(resources, container.get("resources", {}))
    if resources.shared_memory:
        _mount_shared_memory(spec, container, _size(resources))


def _amounts(resources: Resources, base: Mapping[str, Any]) -> Manifest:
    # The scheduler rejects a pod with both whole GPUs and a share.
    replaced = {NVIDIA} if resources.share else set()
    amounts = {side: _without(base.get(side, {}), replaced) for side in ("requests", "limits")}
    for name, amount in (("cpu", resources.cpu), ("memory", resources.memory)):
        for side, values in amounts.items():
            value = getattr(amount, side) if amount else None
            if value is not None:
                values[name] = value
    for name, count in {**resources.devices, **resources.extended}.items():
        amounts["limits"][name] = str(count)
    return {**_without(base, amounts), **{side: values for side, values in amounts.items() if values}}


def _without(amounts: Mapping[str, Any], names: Collection[str]) -> Manifest:
    return {name: value for name, value in amounts.items() if name not in names}


def _size(resources: Resources) -> str | None:
    """The size limit of the shared memory; None for no limit other than the node's memory."""
    if resources.shared_memory != AUTO:
        return resources.shared_memory
    limit = resources.memory.limits if resources.memory else None
    return _quantity(int(parse_quantity(limit)) // 2) if limit else None


def _quantity(size: int) -> str:
    unit = next(unit for unit, scale in _UNITS.items() if size % scale == 0)
    return f"{size // _UNITS[unit]}{unit}"


def _mount_shared_memory(spec: Manifest, container: Manifest, size: str | None) -> None:
    # Data in this volume counts against the container's memory limit.
    volume = {"name": _VOLUME, "emptyDir": {"medium": "Memory", **({"sizeLimit": size} if size else {})}}
    spec["volumes"] = [*spec.get("volumes", ()), volume]
    others = [each for each in container.get("volumeMounts", ()) if each["mountPath"].rstrip("/") != SHARED_MEMORY]
    container["volumeMounts"] = [*others, {"name": _VOLUME, "mountPath": SHARED_MEMORY}]
