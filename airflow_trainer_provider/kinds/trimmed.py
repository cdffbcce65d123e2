"""What is kept of an object that is watched: its status, and little of its spec."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.pod import default_container
from airflow_trainer_provider.kinds.objects.pod_secrets import SECRETS, pod_secrets

#: Half of an object, and copies of it, and where readers of logs are.
_METADATA = frozenset({"managedFields", "selfLink", "generation"})
#: Different each time: to share them would only take room.
_UNIQUE = frozenset({"resourceVersion", "uid"})
_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "airflow-trainer-provider/log-")
#: Of a pod's spec.
_POD_SPEC = frozenset({"containers", "initContainers", "nodeName", "restartPolicy", "terminationGracePeriodSeconds"})
_CONTAINER = frozenset({"name", "restartPolicy"})
_STATUS_OF_CONTAINER = frozenset({"name", "state", "lastState", "restartCount", "started"})
#: What a job's own spec gives its containers: long, and without effect on the job's status.
_SPEC = frozenset({"args", "command", "env", "volumes", "volumeMounts"})
#: Longer texts seldom repeat; characters.
_LONG = 100


def trimmed(manifest: Manifest) -> Manifest:
    """The object without the fields that are not read of a watched object. Words that repeat are shared by all objects.

    :param manifest: as the API gives it; it is left as it is.
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
    """What is kept of a pod template, one object for all jobs: the container that its pods are there for."""
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
    """The same value, whose words are the same objects wherever they stand."""
    if isinstance(value, str):
        return sys.intern(value) if len(value) < _LONG else value
    if isinstance(value, dict):
        return {sys.intern(name): _shared(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shared(each) for each in value]
    return value
