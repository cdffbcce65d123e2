"""Finds the secrets in a pod's spec, to mask them in the pod's output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.text.mask import Mask, mask_of
from airflow_trainer_provider.text.redaction import secrets_in

#: The field of a trimmed pod's spec that holds the secrets: the fields in which they were found are not kept.
SECRETS = "secrets"
_FIELDS = ("env", "command", "args")
#: How many recent results are cached: all versions of a pod, and most pods of a job, have the same values, and the
#: search is slow.
_REMEMBERED = 512
_known: dict[str, frozenset[str]] = {}


def pod_secrets(pod: Manifest) -> frozenset[str]:
    """The values in a pod's containers that look like secrets. Values from Secret objects are not known here.

    :param pod: the pod, trimmed or not.
    """
    kept: frozenset[str] | None = pod["spec"].get(SECRETS)
    if kept is not None:
        return kept
    containers = (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ()))
    values: list[Any] = [{name: container.get(name) for name in _FIELDS} for container in containers]
    key = repr(values)
    if key not in _known:
        if len(_known) >= _REMEMBERED:
            del _known[next(iter(_known))]
        _known[key] = secrets_in(values)
    return _known[key]


def pods_mask(pods: Iterable[Manifest]) -> Mask:
    """The mask for the secrets of some pods.

    :param pods: the pods, usually of one job.
    """
    return mask_of(frozenset().union(*map(pod_secrets, pods)))
