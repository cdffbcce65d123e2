"""The fields of its runtime's pods that a TrainJob can change, according to the installed CRD.

Since Trainer 2.2 the CRD has ``runtimePatches`` for this; before, it had ``podTemplateOverrides`` and ``labels``.
Trainer merges both into the runtime, like Kubernetes' strategic merge.
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/core/trainingruntime.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.labels import PREFIX
from airflow_trainer_provider.kinds.strategic_merge import merged_template
from airflow_trainer_provider.kinds.trainer.training_runtime import NODE
from airflow_trainer_provider.spec.values.limits import MOST_WORD_BYTES

_MANAGER = f"{PREFIX}/trainjob"
_POD_OF_PATCH = (
    *("runtimePatches", "trainingRuntimeSpec", "template", "spec", "replicatedJobs"),
    *("template", "spec", "template", "spec"),
)
_POD_OF_OVERRIDE = ("podTemplateOverrides", "spec")
#: Lists whose entries are merged -> the field that identifies an entry.
_KEYS = {"volumes": "name", "imagePullSecrets": "name", "volumeMounts": "mountPath"}


@dataclass(frozen=True)
class PatchFields:
    """The fields with which a TrainJob changes the pods of its runtime.

    :param pod: name -> OpenAPI schema of a field of the pods' spec.
    :param container: likewise of a field of a container.
    :param write: (labels of the JobSet, metadata of the pods, spec of the pods) -> fields of the TrainJob's spec.
    """

    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    write: Callable[[Manifest, Manifest, Manifest], Manifest]


def patch_fields(schema: Mapping[str, Any]) -> PatchFields | None:
    """The fields of the installed CRD; None where it has no such fields.

    :param schema: of a TrainJob.
    """
    pod, write = schema_at(schema, "spec", *_POD_OF_PATCH), _runtime_patch
    if not pod and schema_at(schema, "spec", "labels"):
        pod, write = schema_at(schema, "spec", *_POD_OF_OVERRIDE), _override
    if not pod:
        return None
    container = schema_at(pod, "containers").get("properties", {})
    others = ("containers", "initContainers", "schedulingGates")
    return PatchFields(
        {name: value for name, value in pod.get("properties", {}).items() if name not in others},
        # Trainer rejects variables of the training's container in this field.
        {name: value for name, value in container.items() if name != "env"},
        write,
    )


def schema_at(schema: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The schema of a field, or of the items of a list; empty where there is no such field.

    :param schema: of an object.
    :param path: names of fields, without the positions in lists.
    """
    for name in path:
        schema = (schema.get("properties") or {}).get(name) or {}
        schema = schema.get("items") or schema
    return schema


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether lists and strings are within the length limits of a schema.

    :param value: of a field.
    :param schema: of the same field.
    """
    if isinstance(value, str):
        most: int = schema.get("maxLength", MOST_WORD_BYTES)
        return len(value.encode()) <= most
    if isinstance(value, Mapping):
        fields = schema.get("properties") or {}
        return all(fits(each, fields.get(name) or {}) for name, each in value.items())
    if isinstance(value, Sequence):
        items = schema.get("items") or {}
        return len(value) <= schema.get("maxItems", len(value)) and all(fits(each, items) for each in value)
    return True


def patch_for(name: str, base: Any, wanted: Any) -> Any:
    """The value with which a strategic merge turns a runtime's value into the wanted one; None where there is none.

    :param name: of the field.
    :param base: its value in the runtime; None for none.
    :param wanted: its value in the job's pods; None for none.
    """
    if name in _KEYS and wanted is not None:
        return _added(_KEYS[name], base or [], wanted)
    if isinstance(wanted, Mapping) and base and merged_template(base, wanted) != wanted:
        return None
    return wanted


def _added(key: str, base: Sequence[Manifest], wanted: Sequence[Manifest]) -> list[Manifest] | None:
    """The additional entries of a list; None where other entries differ, because those would be merged with the
    runtime's.
    """
    added = [entry for entry in wanted if entry not in base]
    keys = [entry[key] for entry in (*base, *added)]
    # The CRD identifies mounts by the name of their volume.
    names = [entry["name"] for entry in added]
    is_addition = len(wanted) == len(keys) == len(set(keys)) and len(names) == len(set(names))
    return added if is_addition else None


def _runtime_patch(labels: Manifest, metadata: Manifest, pod: Manifest) -> Manifest:
    step = {"name": NODE, "template": {"spec": {"template": {"metadata": metadata, "spec": pod}}}}
    template = {"metadata": {"labels": labels}, "spec": {"replicatedJobs": [step]}}
    return {"runtimePatches": [{"manager": _MANAGER, "trainingRuntimeSpec": {"template": template}}]}


def _override(labels: Manifest, metadata: Manifest, pod: Manifest) -> Manifest:
    override = {"targetJobs": [{"name": NODE}], "metadata": metadata, "spec": pod}
    return {"labels": labels, "podTemplateOverrides": [override]}
