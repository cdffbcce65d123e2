"""Settings of a job that its ``pod_template`` may hold as well, in the form of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from airflow_trainer_provider.policies.field_path import FieldPath
from airflow_trainer_provider.spec.compute import GpuShare
from airflow_trainer_provider.spec.misplaced import TRAINING_CONTAINER
from airflow_trainer_provider.spec.values.devices import NVIDIA, counts_of
from airflow_trainer_provider.spec.values.plain import Place

#: Field of a spec, or the beginning of its path -> the path of the same setting in a pod's spec. The first that matches
#: counts.
POD_FIELDS: Mapping[FieldPath, FieldPath] = {
    ("scheduling", "node_selector"): ("nodeSelector",),
    ("scheduling", "priority_class"): ("priorityClassName",),
    ("scheduling", "scheduler_name"): ("schedulerName",),
    ("scheduling", "tolerations", "*", "seconds"): ("tolerations", "*", "tolerationSeconds"),
    ("scheduling", "tolerations"): ("tolerations",),
    ("run_policy", "grace_period_seconds"): ("terminationGracePeriodSeconds",),
    ("pod", "service_account"): ("serviceAccountName",),
    ("pod", "security", "run_as_user"): ("securityContext", "runAsUser"),
    ("pod", "security", "run_as_group"): ("securityContext", "runAsGroup"),
    ("pod", "security", "supplemental_groups"): ("securityContext", "supplementalGroups"),
    ("pod", "security", "fs_group"): ("securityContext", "fsGroup"),
    ("pod", "image_pull", "secrets", "*"): ("imagePullSecrets", "*", "name"),
    ("pod", "image_pull", "secrets"): ("imagePullSecrets",),
    ("volumes", "*", "host_path"): ("volumes", "*", "hostPath", "path"),
    ("volumes", "*", "nfs"): ("volumes", "*", "nfs"),
}
#: The same for settings that the provider also puts into pods for other fields: a pod does not show for which field.
_SHARED_FIELDS: Mapping[FieldPath, FieldPath] = {
    ("volumes", "*", "claim"): ("volumes", "*", "persistentVolumeClaim", "claimName"),
    ("volumes", "*", "secret", "name"): ("volumes", "*", "secret", "secretName"),
    ("volumes", "*", "secret"): ("volumes", "*", "secret"),
    ("volumes", "*", "config_map"): ("volumes", "*", "configMap"),
    ("volumes", "*", "empty_dir", "size"): ("volumes", "*", "emptyDir", "sizeLimit"),
}
_TEMPLATE_FIELDS = {**POD_FIELDS, **_SHARED_FIELDS}
#: Setting of a replica -> the field of a container with the same setting, where both have the same form.
CONTAINER_FIELDS = {"image": "image", "command": "command", "args": "args", "working_dir": "workingDir"}
_SPEC = "pod_template.spec"


def pod_path(path: FieldPath) -> FieldPath | None:
    """The path of a field's setting in the spec of a ``pod_template``, or of the pods of a manifest.

    None where a pod has no such field.

    :param path: of the field.
    """
    return path if path == ("volumes",) else _below(path, _TEMPLATE_FIELDS)


def rendered_path(path: FieldPath) -> FieldPath | None:
    """The path of a field's setting in the spec of any pod, including those that the provider renders.

    Also None where the provider puts the same setting there for other fields.

    :param path: of the field.
    """
    return _below(path, POD_FIELDS)


def _below(path: FieldPath, fields: Mapping[FieldPath, FieldPath]) -> FieldPath | None:
    if path[:2] == ("pod_template", "spec"):
        return path[2:]
    for begin, there in fields.items():
        if path[: len(begin)] == begin:
            return (*there, *path[len(begin) :])
    return None


def resource_path(path: FieldPath) -> FieldPath:
    """The path of a resource under its name in Kubernetes.

    :param path: below a spec's resources, e.g. ``("gpu",)`` or ``("extended", "rdma/hca")``.
    """
    if path == ("gpu",):
        return (NVIDIA,)
    if path[:1] == ("gpu",) and path[1] in GpuShare.model_fields:
        return path
    return path[1:] if path[:1] in (("gpu",), ("extended",)) and len(path) > 1 else path


def spec_resources(resources: Any) -> Any:
    """A spec's resources under their names in Kubernetes.

    :param resources: a mapping of plain values; None for none.
    """
    if not isinstance(resources, Mapping):
        return resources
    others = {name: value for name, value in resources.items() if name != "gpu"}
    gpu = resources.get("gpu")
    # A rule for the number of GPUs also applies to a share: a share by memory may be a whole GPU.
    found = {"gpu": gpu, NVIDIA: gpu.get("fraction") or 1} if _is_share(gpu) else counts_of(gpu)
    return {**others, **found, **(resources.get("extended") or {})}


def _is_share(gpu: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(gpu, Mapping) and bool(gpu) and gpu.keys() <= GpuShare.model_fields.keys()


def written_place(resources: Mapping[str, Any], place: Place) -> Place:
    """The place in a spec's resources of a value in the result of :func:`spec_resources`.

    :param resources: of a spec.
    :param place: the place of the value in the result of that function.
    """
    name = place[0] if place else None
    if name in (resources.get("extended") or {}):
        return ("extended", *place)
    gpu = resources.get("gpu")
    if _is_share(gpu):
        return ("gpu",) if name == NVIDIA else place
    if name in counts_of(gpu):
        return ("gpu", *place[1:]) if name == NVIDIA else ("gpu", *place)
    return place


def own_field(path: FieldPath) -> str | None:
    """The field of a spec with the same setting as a path in a ``pod_template``; None where the spec has no such field.

    A rule for the path in the ``pod_template`` would not apply to the field.

    :param path: of a rule.
    """
    if path[:2] != ("pod_template", "spec"):
        return None
    there = path[2:]
    if there[:1] in (("containers",), ("initContainers",)):
        return "image, working_dir, env.NAME or resources_per_node, which count for all containers"
    around = [each for each in _TEMPLATE_FIELDS.items() if there[: len(each[1])] == each[1]]
    within = [each for each in _TEMPLATE_FIELDS.items() if each[1][: len(there)] == there]
    if not around and not within:
        return None
    begin, known = max(around, key=_depth) if around else min(within, key=_depth)
    rest = there[len(known) :]
    return ".".join(begin) + "".join(f"['{part}']" if "." in part else f".{part}" for part in rest)


def _depth(field: tuple[FieldPath, FieldPath]) -> int:
    return len(field[1])


def training_container(template: Mapping[str, Any] | None, names: Sequence[str]) -> Mapping[str, Any]:
    """The training's container in a ``pod_template``; empty where it has none.

    :param template: of a spec.
    :param names: the names that kinds give it, in addition to ``train``.
    """
    found = {each.get("name"): each for each in _spec(template).get("containers") or ()}
    return next((found[name] for name in (TRAINING_CONTAINER, *names) if name in found), {})


def other_containers(
    template: Mapping[str, Any] | None, training: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Sidecars and init containers, each with its path in the spec.

    :param template: of a spec.
    :param training: the training's container in it.
    """
    for field in ("containers", "initContainers"):
        for each in _spec(template).get(field) or ():
            if each is not training:
                yield container_field(field, each), each


def container_field(field: str, container: Mapping[str, Any]) -> str:
    """The path of a container as an error names it.

    :param field: ``containers`` or ``initContainers``.
    :param container: of a ``pod_template``.
    """
    return f"{_SPEC}.{field}[name={container.get('name')}]"


def container_setting(container: Mapping[str, Any], setting: str) -> Any:
    """The value of a setting in a container, in the form of the spec; None where the container does not set it.

    :param container: of a pod.
    :param setting: of a replica, e.g. ``env``.
    """
    if setting == "env":
        found = container.get("env")
        entries = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
        return {str(each.get("name")): each.get("value", each.get("valueFrom", "")) for each in entries} or None
    if setting == "resources":
        return _resources(container.get("resources")) or None
    return container.get(CONTAINER_FIELDS.get(setting, ""))


def _resources(resources: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for side in ("requests", "limits"):
        amounts = resources.get(side) if isinstance(resources, Mapping) else None
        for name, value in amounts.items() if isinstance(amounts, Mapping) else ():
            found.setdefault(str(name), {})[side] = value
    # For resources that are counted in whole devices, the request equals the limit.
    return {name: next(iter(each.values())) if "/" in name else each for name, each in found.items()}


def _spec(template: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (template or {}).get("spec") or {}
