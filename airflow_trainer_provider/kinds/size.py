"""Refuses objects that a cluster could not store, or whose containers it could not start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.plan.limits import roster_problem, size_field
from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
from airflow_trainer_provider.kinds.base import Manifest, Rendered
from airflow_trainer_provider.spec.values.base import SpecModel
from airflow_trainer_provider.spec.values.limits import (
    MOST_DATA_BYTES,
    MOST_JOB_BYTES,
    MOST_OBJECT_BYTES,
    MOST_OBJECTS,
    MOST_RUNTIME_BYTES,
    MOST_WORD_BYTES,
)

#: How many bytes a variable takes in etcd in addition to its size in JSON: its ``managedFields``, less the quotes of
#: JSON. Measured with Kubernetes 1.34, where a Job of 10,000 variables may have 1.15 MB as JSON, and one of 1,000 may
#: have 1.53 MB.
_MANAGED_BYTES = 43
_ELSEWHERE = "Put the data into the image, a volume, or a ConfigMap or Secret of your own, and refer to it."


def check_size(job: Plan, rendered: Rendered) -> None:
    """Refuse objects, data, variables and arguments that are too large.

    :param job: the job.
    :param rendered: its objects.
    :raises SpecError: naming the object, its size, the limit, and the field that makes it so large.
    """
    for manifest in (*rendered.before, rendered.main, *rendered.after):
        for problem in (*_long_words(job, manifest), *_large_data(job, manifest), *_large_object(job, manifest)):
            raise SpecError([problem])


def check_copies(job: JobPlan, count: int) -> None:
    """Refuse a job with too many pod templates, or too large ones, before they are rendered.

    :param job: the job.
    :param count: how many templates it has.
    :raises SpecError: naming the field that makes them so many, or so large.
    """
    if count > MOST_OBJECTS:
        field, value = size_field(job.spec)
        allowed = f"replicas that at most {MOST_OBJECTS} Jobs can start; these need {count}"
        fix = "Start fewer replicas, give more of them equal settings, or use another backend."
        raise SpecError([Problem(field, value, allowed, fix)])
    sizes = _sizes(job)
    own = sum(size for field, size in sizes.items() if ".overrides[" in field)
    total = count * (sum(sizes.values()) - own) + own
    if total > MOST_JOB_BYTES:
        field = max(sizes, key=lambda name: sizes[name])
        allowed = f"at most {MOST_JOB_BYTES} bytes for all objects of a job; {count} Jobs that repeat it have {total}"
        fix = f"Give more replicas equal settings, which share a Job. {_ELSEWHERE}"
        raise SpecError([Problem(field, f"{sizes[field]} bytes", allowed, fix)])


def _sizes(job: Plan) -> dict[str, int]:
    """The size in bytes of each field that the objects of a job repeat."""
    if not isinstance(job, JobPlan):
        return {"manifest": _json_size(job.spec.manifest)}
    sizes = {
        f"{prefix}{field}": _json_size(getattr(part, field) or "")
        for prefix, part in job.spec.parts
        for field in ("command", "args", "env", "scheduling", "pod")
    }
    return {**sizes, "pod_template": _json_size(job.spec.pod_template or "")}


def _json_size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=SpecModel.model_dump)
    return len(text.encode())


def _title(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _long_words(job: Plan, manifest: Manifest) -> Iterator[Problem]:
    for container in _containers(manifest):
        yield from _long_variables(job, manifest, container)
        for word in (*_items(container, "command"), *_items(container, "args")):
            if isinstance(word, str) and len(word.encode()) > MOST_WORD_BYTES:
                yield _long_word(job, manifest, "an argument", len(word.encode()))


def _long_variables(job: Plan, manifest: Manifest, container: Mapping[str, Any]) -> Iterator[Problem]:
    for variable in _items(container, "env"):
        if isinstance(variable, Mapping) and isinstance(variable.get("value"), str):
            size = len(f"{variable.get('name')}={variable['value']}".encode())
            if size > MOST_WORD_BYTES:
                yield _long_variable(job, manifest, str(variable.get("name")), size)


def _long_variable(job: Plan, manifest: Manifest, name: str, size: int) -> Problem:
    if isinstance(job, JobPlan):
        given = {each["name"] for container in _containers(job.spec.pod_template) for each in _items(container, "env")}
        # Variables of the other fields were checked with the spec.
        if name not in given:
            return roster_problem(job, name, size)
    return _long_word(job, manifest, f"variable {name[:63]}", size)


def _long_word(job: Plan, manifest: Manifest, what: str, size: int) -> Problem:
    field = "pod_template" if isinstance(job, JobPlan) else "manifest"
    allowed = f"at most {MOST_WORD_BYTES} bytes, which is the most that Linux takes for one variable or argument"
    return Problem(field, f"{what} of {size} bytes in {_title(manifest)}", allowed, _ELSEWHERE)


def _large_data(job: Plan, manifest: Manifest) -> Iterator[Problem]:
    """The problem of a framework's files that are too large; a user's own manifest is neither a ConfigMap nor a
    Secret.
    """
    if not isinstance(job, JobPlan) or manifest["kind"] not in ("ConfigMap", "Secret"):
        return
    data = {**manifest.get("data", {}), **manifest.get("stringData", {})}
    size = sum(len(text.encode()) for text in data.values())
    if size > MOST_DATA_BYTES:
        field, value = size_field(job.spec)
        allowed = (
            f"so few replicas that {', '.join(data)} in {_title(manifest)} has at most {MOST_DATA_BYTES} bytes; "
            f"it has {size}"
        )
        yield Problem(field, value, allowed, "Start fewer replicas.")


def _large_object(job: Plan, manifest: Manifest) -> Iterator[Problem]:
    size = _json_size(manifest)
    if manifest["kind"] == "TrainingRuntime" and size > MOST_RUNTIME_BYTES:
        allowed = f"at most {MOST_RUNTIME_BYTES} bytes for a runtime, which Trainer copies to a ConfigMap"
        yield _too_large(job, manifest, size, allowed)
    elif (size := size + _MANAGED_BYTES * _count_named(manifest)) > MOST_OBJECT_BYTES:
        allowed = f"at most {MOST_OBJECT_BYTES} bytes for one object, beside which etcd takes what the cluster adds"
        yield _too_large(job, manifest, size, allowed)


def _too_large(job: Plan, manifest: Manifest, size: int, allowed: str) -> Problem:
    sizes = _sizes(job)
    field = max(sizes, key=lambda name: sizes[name])
    return Problem(
        field, f"{_title(manifest)} of {size} bytes; {field} has {sizes[field]} of them", allowed, _ELSEWHERE
    )


def _count_named(value: Any) -> int:
    """How many list items have a name. For each of them, the API server records who manages its fields."""
    if isinstance(value, Mapping):
        return sum(map(_count_named, value.values()))
    if isinstance(value, (list, tuple)):
        return sum((isinstance(each, Mapping) and "name" in each) + _count_named(each) for each in value)
    return 0


def _containers(value: Any) -> Iterator[Mapping[str, Any]]:
    """All containers that are written anywhere in an object."""
    if isinstance(value, Mapping):
        for name in ("containers", "initContainers"):
            yield from (each for each in _items(value, name) if isinstance(each, Mapping))
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _containers(each)


def _items(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []
