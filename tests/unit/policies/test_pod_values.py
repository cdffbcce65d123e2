"""Which fields of a spec say the same as a field of a pod, so that a rule for one holds for the other."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kubernetes import client
from pydantic import BaseModel

from airflow_trainer_provider.policies.field_path import ANY, FieldPath
from airflow_trainer_provider.policies.pod_values import pod_path, rendered_path
from airflow_trainer_provider.spec.pod import PodSettings
from airflow_trainer_provider.spec.scheduling import JobScheduling
from airflow_trainer_provider.spec.volumes import Volume

#: Fields that no single field of a pod's spec says in the same form, and why.
NOT_IN_PODS = {
    "scheduling.node_pools": "an affinity",
    "scheduling.node_pool_label": "the label of that affinity",
    "scheduling.node_affinity": "an affinity has terms of another form",
    "scheduling.topology": "an affinity, or spread constraints",
    "scheduling.queue_name": "a label",
    "scheduling.gang": "an object of the scheduler",
    "pod.image_pull.policy": "a field of containers",
    "pod.labels": "in the pod's metadata",
    "pod.annotations": "in the pod's metadata",
    "pod.env_from": "a field of containers",
    "volumes.*.mount_path": "a field of containers",
    "volumes.*.sub_path": "a field of containers",
    "volumes.*.read_only": "a field of containers",
    "volumes.*.name": "the name by which a container mounts it",
    "volumes.*.new_claim": "an object of its own",
    "volumes.*.empty_dir.medium": "other words",
    "volumes.*.git": "an init container",
    "volumes.*.s3": "an init container",
}


def _fields(model: type[BaseModel], begin: FieldPath) -> Iterator[FieldPath]:
    """The paths of all settings, down to those that are in a pod or are known not to be."""
    for name, field in model.model_fields.items():
        path = (*begin, name)
        below = [each for each in _models(field.annotation) if ".".join(path) not in NOT_IN_PODS]
        if below and pod_path(path) is None:
            yield from (found for each in below for found in _fields(each, path))
        else:
            yield path


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in getattr(annotation, "__args__", ()) for found in _models(each)]


FIELDS = [
    *_fields(JobScheduling, ("scheduling",)),
    *_fields(PodSettings, ("pod",)),
    *_fields(Volume, ("volumes", ANY)),
]


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_a_field_is_one_of_a_pod_or_has_a_reason_why_it_is_none(path):
    assert (pod_path(path) is None) == (".".join(path) in NOT_IN_PODS)


def test_no_reason_is_left_of_a_field_that_is_gone():
    assert set(NOT_IN_PODS) <= set(map(".".join, FIELDS))


@pytest.mark.parametrize("path", [path for path in FIELDS if pod_path(path)], ids=".".join)
def test_the_field_of_a_pod_is_there(path):
    kind = "V1PodSpec"
    for part in pod_path(path):
        kind = kind.removeprefix("list[").removesuffix("]") if part == ANY else _type_of(kind, part)


def _type_of(kind: str, field: str) -> str:
    model = getattr(client, kind)
    (name,) = [name for name, key in model.attribute_map.items() if key == field]
    return re.sub(r"dict\(str, (.*)\)", r"\1", model.openapi_types[name])


def test_what_a_pod_has_for_other_fields_too_is_not_held_against_the_pods_that_the_provider_renders():
    assert rendered_path(("volumes", ANY, "claim")) is None
    assert rendered_path(("volumes",)) is None
    assert rendered_path(("volumes", ANY, "host_path")) == ("volumes", ANY, "hostPath", "path")
