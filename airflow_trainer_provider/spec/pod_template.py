"""The pod template of a spec. Only the fields that the provider reads are checked; the API server checks the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from airflow_trainer_provider.spec.misplaced import template_way_out
from airflow_trainer_provider.spec.values.shape import MAPPING, NEEDED, TEXT, TEXTS, in_camel_case, shaped

_NAMED = {"name": NEEDED}
_RESOURCES = {"requests": MAPPING, "limits": MAPPING}
_MOUNT = {**_NAMED, "mountPath": NEEDED}
_VOLUME = {**_NAMED}
_CONTAINER = {
    **_NAMED,
    "image": TEXT,
    "command": [TEXT],
    "args": [TEXT],
    "workingDir": TEXT,
    "env": [{**_NAMED, "value": TEXT, "valueFrom": {}}],
    "envFrom": [{}],
    "ports": [{}],
    "resources": _RESOURCES,
    "securityContext": {},
    "volumeMounts": [_MOUNT],
}
_AFFINITY: Mapping[str, Any] = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{}],
    "preferredDuringSchedulingIgnoredDuringExecution": [{}],
}
_NODE_AFFINITY = {
    **_AFFINITY,
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{}]}]},
}
_SPEC = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [_VOLUME],
    "imagePullSecrets": [_NAMED],
    "tolerations": [{}],
    "nodeSelector": TEXTS,
    "affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": _AFFINITY},
    "topologySpreadConstraints": [{}],
    "securityContext": {},
}
_TEMPLATE = {"metadata": {"labels": TEXTS, "annotations": TEXTS}, "spec": _SPEC}
_LEVELS = (
    (_TEMPLATE, "template"),
    (_SPEC, "spec"),
    (_CONTAINER, "container"),
    (_VOLUME, "volume"),
    (_MOUNT, "mount"),
    (_RESOURCES, "resources"),
)


def _misplaced(shape: Mapping[str, Any], name: str) -> str | None:
    level = next((level for known, level in _LEVELS if known is shape), None)
    fix = template_way_out(level, name) if level else None
    if fix is None and level == "template":
        return "Remove it: a PodTemplateSpec has metadata and spec alone."
    return fix or in_camel_case(name)


def _pod_template(value: Any) -> Any:
    return shaped(_TEMPLATE, value, _misplaced)


#: A PodTemplateSpec. Words of a command line and values of variables, labels and annotations may also be numbers.
PodTemplate = Annotated[Mapping[str, Any], BeforeValidator(_pod_template)]
