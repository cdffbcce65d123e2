"""The values that a TrainJob gives to the initializers of its runtime, and the check that the runtime has them.

Trainer's controller writes the values into the container of a step, which it finds by the step's label. Its webhook
rejects a TrainJob whose runtime lacks a step of the expected name, or the volume that initializers share with the
nodes. https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/jobset/builder.go
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.references import in_order
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.pod import containers_of
from airflow_trainer_provider.kinds.objects.pod_settings import value_of
from airflow_trainer_provider.spec import Variable
from airflow_trainer_provider.spec.running.runtime import InitializerSource

#: The label of a runtime's step that names the part of a TrainJob that the step is for.
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
#: The volume that initializers share with the nodes.
_VOLUME = "initializer"


def initializer_of(job: JobPlan) -> Manifest:
    """``spec.initializer`` of the job's TrainJob.

    :param job: the job, with values for the initializers of its runtime.
    """
    return {name: _source(source) for name, source in job.spec.initializers.items()}


def check_initializers(job: JobPlan, steps: Mapping[str, Manifest]) -> None:
    """Refuse values for initializers that the runtime does not have.

    :param job: the job.
    :param steps: the replicated jobs of its runtime, by name.
    :raises UnsupportedField: naming the field and the way out.
    """
    for name in job.spec.initializers:
        step = f"{name}-initializer"
        missing = _missing(step, steps.get(step))
        if missing:
            allowed = f"a runtime with {missing}; {job.spec.runtime_name} has none"
            fix = f"Name another runtime, drop {name}, or let volumes fetch from git or S3."
            problem = Problem(f"runtime_ref.initializer.{name}", "a value", allowed, fix)
            raise UnsupportedField("trainer", problem)


def _missing(name: str, step: Manifest | None) -> str | None:
    """The part of an initializer that a runtime lacks; None where it lacks nothing."""
    if step is None:
        return f"the replicated job {name}"
    metadata = (step.get("template") or {}).get("metadata") or {}
    if (metadata.get("labels") or {}).get(ANCESTOR) != name:
        return f"the label {ANCESTOR}={name} on the replicated job {name}"
    container = _container(name, step)
    if container is None:
        return f"a container {name} in the replicated job {name}"
    if not any(mount.get("name") == _VOLUME for mount in container.get("volumeMounts") or ()):
        return f"the volume {_VOLUME} mounted into the container {name}"
    return None


def _container(name: str, step: Manifest) -> Manifest | None:
    template = ((step.get("template") or {}).get("spec") or {}).get("template")
    return next((each for each in containers_of(template) if each.get("name") == name), None)


def _source(source: InitializerSource) -> Manifest:
    found: Manifest = {}
    if source.storage_uri:
        found["storageUri"] = source.storage_uri
    if source.env:
        found["env"] = [dict(entry) for entry in in_order([_entry(*each) for each in source.env.items()])]
    if source.secret:
        found["secretRef"] = {"name": source.secret}
    return found


def _entry(name: str, variable: Variable) -> Manifest:
    value = value_of(variable)
    return {"name": name, "value" if isinstance(value, str) else "valueFrom": value}
