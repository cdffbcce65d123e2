"""Lays one pod template over another, as Kubernetes' strategic merge does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest

#: Lists of a pod -> the field that identifies an entry.
_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), "name"),
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
#: Those of them whose entries are merged and not replaced.
_MERGED = ("containers", "initContainers")


def merged_template(base: Mapping[str, Any], over: Mapping[str, Any]) -> Manifest:
    """A pod template laid over another.

    :param base: of the runtime.
    :param over: of the user; wins where both say something.
    """
    merged = deepcopy(dict(base))
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merged_template(below, value)
        elif key in _KEYS and below:
            merged[key] = _merged_list(key, below, value)
        else:
            merged[key] = deepcopy(value)
    return merged


def _merged_list(field: str, base: Sequence[Manifest], over: Sequence[Manifest]) -> list[Manifest]:
    key = _KEYS[field]
    entries = {entry.get(key): entry for entry in base}
    for entry in over:
        name = entry.get(key)
        below = entries.get(name) if field in _MERGED else None
        entries[name] = merged_template(below, entry) if below else deepcopy(entry)
    return list(entries.values())
