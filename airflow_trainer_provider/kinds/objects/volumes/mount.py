"""Mounts a replica's volumes into the training's container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.volumes.claims import claim_name
from airflow_trainer_provider.kinds.objects.volumes.fetch import CHECKOUT, fetching, helper_volumes
from airflow_trainer_provider.spec.volume_sources import EmptyDir, KeysAsFiles
from airflow_trainer_provider.spec.volumes import Volume


def mount(template: Manifest, volumes: Sequence[Volume], job_name: str) -> None:
    """Mount a replica's volumes into a pod's first container.

    They replace the volumes of a runtime that have the same name, or are mounted at the same path. In a user's own
    template, such volumes are refused.

    :param template: the pod's template.
    :param volumes: of the replica.
    :param job_name: the name of the job.
    """
    if not volumes:
        return
    spec = template["spec"]
    train = spec["containers"][0]
    own: dict[str, Manifest] = {}
    for volume in volumes:
        entries = [_entry(volume, volumes, job_name), *helper_volumes(volume)]
        own |= {entry["name"]: entry for entry in entries}
    spec["volumes"] = [*(each for each in spec.get("volumes", ()) if each["name"] not in own), *own.values()]
    _lay(train, "volumeMounts", "mountPath", [_mount(volume) for volume in volumes if not volume.is_block])
    _lay(train, "volumeDevices", "devicePath", [_device(volume) for volume in volumes if volume.is_block])
    fetches = list(_fetches(volumes, train))
    if fetches:
        # Before the user's own init containers, which may use the data.
        spec["initContainers"] = [*fetches, *spec.get("initContainers", ())]


def _lay(train: Manifest, field: str, key: str, entries: Sequence[Manifest]) -> None:
    """Add mounts to a container, replacing those at the same paths.

    :param field: the container's list.
    :param key: the field of an entry that has its path.
    """
    paths = {entry[key] for entry in entries}
    if entries:
        train[field] = [*(each for each in train.get(field, ()) if each.get(key) not in paths), *entries]


def _fetches(volumes: Sequence[Volume], train: Manifest) -> Iterator[Manifest]:
    """One init container for each volume that needs one, even if the volume is mounted at several paths."""
    mounts: dict[str, list[Volume]] = {}
    for volume in volumes:
        mounts.setdefault(volume.pod_name, []).append(volume)
    for same in mounts.values():
        parts = [volume.sub_path for volume in same if volume.sub_path]
        fetch = fetching(same[0], parts, train)
        if fetch:
            yield fetch


def _mount(volume: Volume) -> Manifest:
    path = "/".join(filter(None, [CHECKOUT if volume.git else None, volume.sub_path]))
    return {
        "name": volume.pod_name,
        "mountPath": volume.mount_path,
        **({"subPath": path} if path else {}),
        **({"readOnly": True} if volume.read_only else {}),
    }


def _device(volume: Volume) -> Manifest:
    return {"name": volume.pod_name, "devicePath": volume.mount_path}


def _entry(volume: Volume, volumes: Sequence[Volume], job_name: str) -> Manifest:
    """The entry for a volume in the pod's spec."""
    if volume.claim is not None or volume.new_claim is not None:
        name = volume.claim or claim_name(volume, job_name)
        # A disk that several nodes may only read can only be attached read-only.
        read_only = all(each.read_only for each in volumes if each.pod_name == volume.pod_name)
        source: Manifest = {"claimName": name, **({"readOnly": True} if read_only else {})}
        return {"name": volume.pod_name, "persistentVolumeClaim": source}
    return {"name": volume.pod_name, **_SOURCES[volume.source](getattr(volume, volume.source))}


def _empty_dir(source: EmptyDir) -> Manifest:
    medium = {"medium": "Memory"} if source.medium == "memory" else {}
    return {"emptyDir": {**medium, **({"sizeLimit": source.size} if source.size else {})}}


def _items(source: KeysAsFiles) -> Manifest:
    items = [{"key": each.key, "path": each.path or each.key} for each in source.items or ()]
    return {"items": items} if items else {}


def _fetched(source: Any) -> Manifest:
    return {"emptyDir": {}}


_SOURCES: Mapping[str, Callable[[Any], Manifest]] = {
    "empty_dir": _empty_dir,
    "host_path": lambda path: {"hostPath": {"path": path}},
    "nfs": lambda nfs: {"nfs": {"server": nfs.server, "path": nfs.path}},
    "config_map": lambda source: {"configMap": {"name": source.name, **_items(source)}},
    "secret": lambda source: {"secret": {"secretName": source.name, **_items(source)}},
    "git": _fetched,
    "s3": _fetched,
}
