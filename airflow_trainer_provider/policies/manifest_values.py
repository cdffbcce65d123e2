"""The values of a field in a user's own manifest, as far as objects of its kind have a place for the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_trainer_provider.job.plan.plan import ManifestPlan
from airflow_trainer_provider.policies.amounts import amount
from airflow_trainer_provider.policies.effective import Setting, direct_settings, setting_of
from airflow_trainer_provider.policies.field_path import ANY, MANIFEST, FieldPath, values_at
from airflow_trainer_provider.policies.manifest_pods import containers_of, only_value, pods_of
from airflow_trainer_provider.policies.pod_values import container_setting, pod_path, resource_path
from airflow_trainer_provider.policies.targets import TARGETS, Target
from airflow_trainer_provider.spec import ManifestSpec
from airflow_trainer_provider.spec.values.plain import Place
from airflow_trainer_provider.spec.values.plain import path as text_of


class ManifestSettings:
    """The settings of a manifest; the counterpart of :class:`~airflow_trainer_provider.policies.effective.Settings` for
    a spec.

    :param job: the job that the manifest describes.
    """

    def __init__(self, job: ManifestPlan) -> None:
        self._job = job
        self._object: Mapping[str, Any] = job.spec.manifest
        kind = (self._object.get("apiVersion"), self._object.get("kind"))
        found = [each for each in TARGETS if (each.resource.api_version, each.resource.kind) == kind]
        self._target = found[0] if found else Target(TARGETS[0].resource)

    def at(self, path: FieldPath) -> Iterator[Setting]:
        """All values that a field's path stands for; none where the manifest has no place for it.

        :param path: of the field.
        """
        if path == (MANIFEST,):
            yield Setting(MANIFEST, str(self._object.get("kind")), is_given=True)
        elif path == ("framework",):
            yield Setting("framework", self._job.framework.name or None, bool(self._job.framework.name))
        elif path in self._target.fields:
            yield from self._at(self._target.fields[path])
        elif path == ("num_nodes",):
            yield from self._nodes()
        elif path == ("run_policy", "backoff_limit"):
            yield from self._restarts()
        elif (there := pod_path(_of_role(path)[1])) is not None:
            yield from self._in_pods(there, _of_role(path)[0])
        elif path[0] in ManifestSpec.model_fields:
            yield from direct_settings(self._job.spec, path)
        else:
            yield from self._in_containers(path)

    def _at(self, path: FieldPath) -> Iterator[Setting]:
        found = [value for _, value in values_at(self._object, path)]
        yield Setting(_text(path), found[0] if found else None, bool(found))

    def _nodes(self) -> Iterator[Setting]:
        for path in self._target.counts:
            if ANY not in path:
                yield from self._at(path)
                continue
            at = path.index(ANY)
            groups = only_value(self._object, path[:at])
            names = [name for name in groups if name != "Launcher"] if isinstance(groups, Mapping) else []
            counts = [amount(only_value(groups, (name, path[-1]))) for name in names]
            # In Kubeflow, a missing number means one.
            yield Setting(_text(path[:at]), int(sum(1 if each is None else each for each in counts)), is_given=True)

    def _restarts(self) -> Iterator[Setting]:
        restarts = self._target.restarts
        if restarts is None:
            return
        found = [amount(only_value(self._object, path)) for path in (restarts.path, restarts.otherwise) if path]
        count = next((each for each in found if each is not None), restarts.missing)
        more = amount(only_value(self._object, restarts.elastic)) if restarts.elastic else None
        yield Setting(_text(restarts.path), int(count - restarts.extra - (more or 0)), is_given=True)

    def _in_pods(self, path: FieldPath, role: str) -> Iterator[Setting]:
        for pod in pods_of(self._target, self._object, role):
            found = [*values_at(pod.spec, path)]
            for below, value in found:
                yield setting_of(_text((*pod.place, *below)), value, is_node=pod.is_whole)
            if pod.is_whole and not found and ANY not in path:
                yield setting_of(_text((*pod.place, *path)), None)

    def _in_containers(self, path: FieldPath) -> Iterator[Setting]:
        role, path = _of_role(path)
        setting = "resources" if path[0] == "resources_per_node" else path[0]
        rest = resource_path(path[1:]) if setting == "resources" else path[1:]
        for pod in pods_of(self._target, self._object, role):
            is_node = pod.is_whole and not (pod.is_launcher and setting == "resources")
            for each in containers_of(self._target, pod):
                yield from _of_container(
                    each.place, each.container, setting, rest, is_node=is_node and each.is_training
                )
        if role == ANY:
            yield from self._of_trainer(setting, rest)

    def _of_trainer(self, setting: str, rest: FieldPath) -> Iterator[Setting]:
        """The settings of the training's container in a TrainJob. Its runtime holds the others."""
        place = self._target.trainer or ()
        trainer = only_value(self._object, place) if place else None
        if isinstance(trainer, Mapping):
            given = {**trainer, "resources": trainer.get("resourcesPerNode")}
            yield from _of_container(place, given, setting, rest, is_node=False)


def _of_role(path: FieldPath) -> tuple[str, FieldPath]:
    """The role that a path is about, and the path of the setting."""
    return (path[1], path[2:]) if path[0] == "replicas" and len(path) > 2 else (ANY, path)


def _of_container(
    place: Place, container: Mapping[str, Any], setting: str, rest: FieldPath, *, is_node: bool
) -> Iterator[Setting]:
    found = [*values_at(container_setting(container, setting), rest)]
    for below, value in found or ([(rest, None)] if ANY not in rest else []):
        if value is not None or is_node:
            yield setting_of(_text((*place, setting, *below)), value, is_node=is_node)


def _text(place: Place) -> str:
    return text_of((MANIFEST, *place))
