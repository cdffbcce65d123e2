"""Trims a watched object to the fields that are read: its status, and a small part of its spec."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.pod import default_container
from airflow_trainer_provider.kinds.objects.pod_secrets import SECRETS, pod_secrets

#: Metadata that is dropped: managedFields alone are half of an object. The annotations that are dropped hold copies of
#: the object, and the cursors of log readers.
_METADATA = frozenset({"managedFields", "selfLink", "generation"})
#: Fields whose values differ for each object or version: sharing them would only take memory.
_UNIQUE = frozenset({"resourceVersion", "uid"})
_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "airflow-trainer-provider/log-")
#: The fields of a pod's spec that are kept.
_POD_SPEC = frozenset({"containers", "initContainers", "nodeName", "restartPolicy", "terminationGracePeriodSeconds"})
_CONTAINER = frozenset({"name", "restartPolicy"})
_STATUS_OF_CONTAINER = frozenset({"name", "state", "lastState", "restartCount", "started"})
#: Fields of a job's own spec that are dropped: they are long, and have no effect on the job's status.
_SPEC = frozenset({"args", "command", "env", "volumes", "volumeMounts"})
#: Strings of at least this many characters are not shared, because they seldom repeat.
_LONG = 100


def trimmed(manifest: Manifest) -> Manifest:
    """The object without the fields that are never read from watched objects. All objects share equal strings.

    :param manifest: as the API returns it; it is not changed.
    """
    parts = {"metadata": _metadata, "spec": _spec, "status": _status}
    kept = {sys.intern(name): parts.get(name, _shared)(value) for name, value in manifest.items()}
    if "containers" in (manifest.get("spec") or ()):
        kept["spec"][SECRETS] = pod_secrets(manifest)
    return kept


def _metadata(value: Manifest) -> Manifest:
    kept = {
        sys.intern(name): each if name in _UNIQUE else _shared(each)
        for name, each in value.items()
        if name not in _METADATA
    }
    if kept.get("annotations"):
        annotations = kept["annotations"].items()
        kept["annotations"] = {name: text for name, text in annotations if not name.startswith(_ANNOTATIONS)}
    return kept


def _spec(value: Any) -> Any:
    if isinstance(value, list):
        return [_spec(each) for each in value]
    if not isinstance(value, dict):
        return _shared(value)
    if isinstance(value.get("containers"), list):
        return _pod_spec(value)
    return {
        sys.intern(name): _template(default_container(each)) if _is_pod_template(name, each) else _spec(each)
        for name, each in value.items()
        if name not in _SPEC
    }


def _pod_spec(value: Manifest) -> Manifest:
    kept = {}
    for name, each in value.items():
        if name in _POD_SPEC and not isinstance(each, list):
            kept[name] = _shared(each)
    for name in ("containers", "initContainers"):
        if value.get(name):
            kept[name] = [_only(container, _CONTAINER) for container in value[name]]
    return kept


def _is_pod_template(name: str, value: Any) -> bool:
    return name == "template" and isinstance(value, dict) and "containers" in (value.get("spec") or {})


@lru_cache(maxsize=1024)
def _template(container: str | None) -> Manifest:
    """What is kept of a pod template: the name of its main container. All jobs share one object."""
    return {"spec": {"containers": [{"name": container}] if container else []}}


def _status(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = _shared(value)
    for name in ("containerStatuses", "initContainerStatuses"):
        if value.get(name):
            kept[name] = [_only(status, _STATUS_OF_CONTAINER) for status in value[name]]
    return kept


def _only(value: Manifest, wanted: frozenset[str]) -> Manifest:
    return {sys.intern(name): _shared(each) for name, each in value.items() if name in wanted}


def _shared(value: Any) -> Any:
    """The same value, in which equal short strings are the same object."""
    if isinstance(value, str):
        return sys.intern(value) if len(value) < _LONG else value
    if isinstance(value, dict):
        return {sys.intern(name): _shared(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shared(each) for each in value]
    return value
