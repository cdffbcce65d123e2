"""The value that a job's replicas get for a field, and where the user wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.policies.field_path import ANY, NAMED, FieldPath, values_at
from airflow_trainer_provider.policies.pod_values import (
    container_field,
    container_setting,
    other_containers,
    pod_path,
    resource_path,
    spec_resources,
    training_container,
    written_place,
)
from airflow_trainer_provider.presets.merge import has_size
from airflow_trainer_provider.spec import ReplicaGroup
from airflow_trainer_provider.spec.scheduling import OF_JOB
from airflow_trainer_provider.spec.values.plain import Place
from airflow_trainer_provider.spec.values.plain import path as text_of

#: Name of a setting in groups -> its name in the job, where they differ.
_JOBS_NAME = {"resources": "resources_per_node"}
_GROUPS_NAME = {there: here for here, there in _JOBS_NAME.items()}
#: Settings whose value in a replica differs from what the user wrote.
_AS_WRITTEN = frozenset({"command", "args"})


@dataclass(frozen=True)
class Setting:
    """A value of a job.

    :param field: its path as the user wrote it, or could write it.
    :param value: a plain value; the spec's default where the user gave none, and None for no value.
    :param is_given: whether the user gave a value.
    :param is_node: whether it belongs to the job or to a replica that trains, and not to a launcher or a sidecar.
    """

    field: str
    value: Any
    is_given: bool
    is_node: bool = True


class Settings:
    """The settings of a job.

    :param job: the job as laid out.
    """

    def __init__(self, job: JobPlan) -> None:
        self._job = job
        self._training = training_container(job.spec.pod_template, (job.framework.name, "node"))
        self._others = list(other_containers(job.spec.pod_template, self._training))

    @cached_property
    def _given(self) -> Mapping[str, Any]:
        return _dumped(self._job.spec, only_given=True)

    def at(self, path: FieldPath) -> Iterator[Setting]:
        """All values that a field's path stands for.

        A setting of replicas stands for the value that each replica gets, from any field of the spec or from
        ``pod_template``.

        :param path: of the field.
        """
        if path == ("num_nodes",):
            yield self._size()
            return
        if path[0] == "replicas" and path[2:] == ("replicas",):
            yield from self._group_sizes(path[1])
            return
        if path == ("scheduling",):
            yield from self._scheduling()
            return
        roles, setting, rest = _of_replicas(path)
        if setting == "volumes":
            yield from self._of_checkpoint(rest)
        if _differs(setting, rest):
            yield from self._of_replicas(roles, setting, rest)
        else:
            yield from direct_settings(self._job.spec, path)
        # The pods of all roles have it.
        there = pod_path((setting, *rest))
        if there is not None and path[0] != "pod_template":
            yield from self._of_pods(there)

    def _size(self) -> Setting:
        for field in ("num_nodes", "num_workers", "elastic"):
            if self._given.get(field) is not None:
                break
        else:
            field = "replicas.worker.replicas" if has_size(self._given) else "num_nodes"
        return Setting(field, len(self._job.nodes), has_size(self._given))

    def _group_sizes(self, role: str) -> Iterator[Setting]:
        for group in dict.fromkeys(replica.group for replica in self._job.replicas):
            if role in (ANY, group):
                given = self._job.spec.replicas.get(group)
                is_given = given is not None and given.replicas is not None
                yield Setting(f"replicas.{group}.replicas", len(self._job.group(group)), is_given)

    def _scheduling(self) -> Iterator[Setting]:
        """All scheduling settings: those that admit or place the job as a whole, and those for where the pods of each
        replica may run.
        """
        given = self._given.get("scheduling") or {}
        of_job = {name: value for name, value in given.items() if name in OF_JOB and value is not None}
        if of_job:
            yield Setting("scheduling", of_job, is_given=True)
        for each in self._of_replicas(ANY, "scheduling", ()):
            if each.is_given or not of_job:
                yield each

    def _of_checkpoint(self, rest: FieldPath) -> Iterator[Setting]:
        """The folder for checkpoints, which is mounted like a volume: the rules for volumes apply to it."""
        if self._job.spec.checkpoint and len(rest) <= 2:
            yield from (each for each in direct_settings(self._job.spec, ("checkpoint", *rest[1:])) if each.is_given)

    def _of_pods(self, path: FieldPath) -> Iterator[Setting]:
        template = (self._given.get("pod_template") or {}).get("spec") or {}
        for place, value in values_at(template, path):
            yield Setting(text_of(("pod_template", "spec", *place)), value, is_given=True, is_node=False)

    def _of_replicas(self, role: str, setting: str, rest: FieldPath) -> Iterator[Setting]:
        for replica in self._representatives:
            if role in (ANY, replica.group):
                yield from self._of_replica(replica, setting, rest)
        for field, container in self._others:
            for place, value in values_at(container_setting(container, setting), rest):
                if value is not None:
                    yield Setting(_text(field, setting, place), value, is_given=True, is_node=False)

    def _of_replica(self, replica: Replica, setting: str, rest: FieldPath) -> Iterator[Setting]:
        base = container_setting(self._training, setting)
        own = getattr(replica, setting, None)
        if setting in _AS_WRITTEN or not hasattr(replica, setting):
            own = self._job.source(replica, setting)[1]
        plain = _plain(own)
        value = _overlaid(base, spec_resources(plain) if setting == "resources" else plain)
        is_node = self._job.framework.trains(replica.group) or setting != "resources"
        found = [*values_at(value, rest)]
        if not found and ANY not in rest:
            found = [(rest, None)]
        for place, each in found:
            written = None if each is None else self._source(replica, setting, place)
            field = written or _joined(self._job.source(replica, setting)[0], place)
            yield Setting(field, each, _is_value(each), is_node)

    def _source(self, replica: Replica, setting: str, place: Place) -> str | None:
        """The path by which the user gave a replica a value; None where the user gave none."""
        groups = self._given.get("replicas") or {}
        group = groups.get(replica.group) or {}
        overrides = enumerate(group.get("overrides") or ())
        parts: list[tuple[str, Any]] = [
            (f"replicas.{replica.group}.overrides[{at}].{setting}", each.get(setting))
            for at, each in overrides
            if each.get("index") == replica.index
        ]
        parts.append((f"replicas.{replica.group}.{setting}", group.get(setting)))
        parts.append((_JOBS_NAME.get(setting, setting), self._given.get(_JOBS_NAME.get(setting, setting))))
        for field, given in parts:
            found = spec_resources(given) if setting == "resources" else given
            if _holds(found, place):
                return _joined(field, written_place(given, place) if setting == "resources" else place)
        if _holds(container_setting(self._training, setting), place):
            return _joined(f"{container_field('containers', self._training)}.{setting}", place)
        return None

    @cached_property
    def _representatives(self) -> list[Replica]:
        """One replica of each set of equal replicas: each replica with its own settings, and one of the others of each
        group.
        """
        own = {
            (name, override.index) for name, group in self._job.spec.replicas.items() for override in group.overrides
        }
        found: dict[tuple[str, int | None], Replica] = {}
        for replica in self._job.replicas:
            is_own = (replica.group, replica.index) in own
            found.setdefault((replica.group, replica.index if is_own else None), replica)
        return list(found.values())


def _differs(setting: str, rest: FieldPath) -> bool:
    """Whether replicas can differ in a setting."""
    if setting == "scheduling" and rest[:1] and rest[0] in OF_JOB:
        return False
    return setting in ReplicaGroup.model_fields and setting not in ("replicas", "overrides")


def _of_replicas(path: FieldPath) -> tuple[str, str, FieldPath]:
    """The roles that a path applies to, the setting, and the path below the setting."""
    if path[0] == "replicas" and len(path) > 2 and path[2] in ReplicaGroup.model_fields:
        role, setting, rest = path[1], path[2], path[3:]
    else:
        role, setting, rest = ANY, _GROUPS_NAME.get(path[0], path[0]), path[1:]
    return role, setting, resource_path(rest) if setting == "resources" else rest


def direct_settings(spec: BaseModel, path: FieldPath) -> Iterator[Setting]:
    """The values at a path of the spec itself.

    :param spec: of a job.
    :param path: of the field.
    """
    named = _named_field(path)
    path = named or path
    written = {place for place, value in values_at(_dumped(spec, only_given=True), path) if _is_value(value)}
    found = [*values_at(_dumped(spec), path)]
    if named:
        found = [(place, value[NAMED[named]] if isinstance(value, Mapping) else value) for place, value in found]
    if not found and ANY not in path:
        found = [(path, None)]
    for place, value in found:
        yield Setting(text_of(place), value if _is_value(value) else None, place in written)


def _named_field(path: FieldPath) -> FieldPath | None:
    """The field whose name a path refers to; None where it refers to no name."""
    return next((field for field, key in NAMED.items() if path in (field, (*field, key))), None)


def setting_of(field: str, value: Any, *, is_node: bool = True) -> Setting:
    """A setting whose path is where the user wrote its value.

    :param field: its path.
    :param value: a plain value; None for no value.
    :param is_node: as in :class:`Setting`.
    """
    return Setting(field, value if _is_value(value) else None, _is_value(value), is_node)


def _dumped(spec: BaseModel, *, only_given: bool = False) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_unset=only_given)


def _overlaid(base: Any, value: Any) -> Any:
    """A container's value, overridden by a replica's; mappings are merged key by key."""
    if isinstance(base, Mapping) and isinstance(value, Mapping):
        return {**base, **{name: _overlaid(base.get(name), each) for name, each in value.items()}}
    return base if value is None else value


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [*map(_plain, value)] if isinstance(value, tuple) else value


def _holds(value: Any, place: Place) -> bool:
    return any(found is not None for _, found in values_at(value, tuple(map(str, place))))


def _is_value(value: Any) -> bool:
    return value is not None and value not in ({}, [])


def _text(field: str, setting: str, place: Place) -> str:
    return _joined(f"{field}.{setting}", place)


def _joined(field: str, place: Sequence[str | int]) -> str:
    below = text_of(tuple(place))
    return f"{field}{below}" if not below or below.startswith("[") else f"{field}.{below}"
