"""Merges one pod template into another, like Kubernetes' strategic merge."""

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
#: The lists among them whose entries are merged instead of replaced.
_MERGED = ("containers", "initContainers")


def merged_template(base: Mapping[str, Any], over: Mapping[str, Any]) -> Manifest:
    """A pod template with another one merged into it.

    :param base: the template of the runtime.
    :param over: the template of the user, which takes precedence.
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
