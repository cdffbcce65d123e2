"""Starts a TrainJob directly from the runtime of ``runtime_ref``, where that runtime creates the pods that the job
needs.

The runtime that would otherwise be created for the job defines its pods. A TrainJob starts from the named runtime if
the TrainJob's own fields can change that runtime's pods to be the same; each field of the pods that they cannot change
is a reason to create a runtime for the job. Trainer then sets the variables of the rendezvous according to the ML
policy, to the values that the frameworks promise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.references import in_order
from airflow_trainer_provider.kinds.base import Facts, Manifest
from airflow_trainer_provider.kinds.native.blocks import PORT
from airflow_trainer_provider.kinds.objects.pod import TERMINATION_MESSAGE_PATH, containers_of, training_container
from airflow_trainer_provider.kinds.trainer.runtime_patch import PatchFields, fits, patch_fields, patch_for, schema_at
from airflow_trainer_provider.kinds.trainer.training_runtime import NODE, renamed, step_template, steps_of

#: Source of an ML policy -> the variables that Trainer sets for it, and with which it overwrites those of the TrainJob.
_VARIABLES = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "jax": ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
}
#: A command to which Trainer adds options from torch's policy.
_TORCHTUNE = ["tune", "run"]
#: The defaults of JobSet and Kubernetes for fields that a runtime leaves out.
_FAILURE_POLICY = {"maxRestarts": 0, "restartStrategy": "Recreate"}
_JOB = {"backoffLimit": 6, "completionMode": "Indexed"}
_POD = {"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 30, "automountServiceAccountToken": True}
_CONTAINER = {"terminationMessagePath": TERMINATION_MESSAGE_PATH, "terminationMessagePolicy": "File"}
#: The fields of a container that ``trainer`` in a TrainJob has.
_WORDS = ("image", "command", "args")
_TRAINERS = (*_WORDS, "env", "resources")


def start_directly(job: JobPlan, facts: Facts, own: Manifest) -> tuple[Manifest, Sequence[str]]:
    """The fields with which a TrainJob changes the pods of the named runtime into those of the job.

    :param job: with the values that it takes from that runtime.
    :param facts: with that runtime, and the schema of the installed CRD.
    :param own: the runtime that would be created for the job.
    :return: fields of the TrainJob's spec, and the fields because of which that runtime has to be created.
    """
    schema = facts.schema or {}
    patches, beyond = patch_fields(schema), _beyond_trainjob(job, facts)
    if beyond or patches is None:
        return {}, beyond or ["the TrainJob CRD, which cannot change the pods of a runtime"]
    base, wanted = _template(facts.runtime or {}), _template(own)
    steps = steps_of(facts)[NODE], next(each for each in wanted["spec"]["replicatedJobs"] if each["name"] == NODE)
    pods, needed = map(step_template, steps)
    beyond += [*_of_job_set(base["spec"], wanted["spec"]), *_of_job(*steps)]
    patch = _patch(patches, pods, needed, beyond)
    trainer = _trainer(job, facts, pods, needed, beyond)
    beyond += _too_long(trainer, schema_at(schema, "spec", "trainer"))
    labels = _added(base.get("metadata") or {}, wanted["metadata"], "labels")
    return {"trainer": trainer, **patches.write(labels, *patch)}, beyond


def _too_long(trainer: Manifest, schema: Mapping[str, Any]) -> list[str]:
    fields = schema.get("properties") or {}
    return [f"trainer.{name}" for name, value in trainer.items() if not fits(value, fields.get(name) or {})]


def _beyond_trainjob(job: JobPlan, facts: Facts) -> list[str]:
    """Why a TrainJob cannot run the job directly, whatever the runtime's pods are."""
    reasons = {
        # The launcher's command waits for the workers, and copies the result from a rank on another node.
        f"framework={job.framework.name}": job.is_launched,
        # Trainer does not support elastic jobs.
        "elastic": job.spec.elastic is not None,
        # When Kueue admits a TrainJob, it writes the whole object, without the fields that the Kueue release does not
        # know.
        "scheduling.queue_name": job.spec.queue_name is not None,
        # The policy by which Trainer creates the PodGroup is a field of the runtime.
        "scheduling.gang": job.spec.gang is not None,
        "the TrainJob CRD, whose schema is not published": facts.schema is None,
        f"the runtime, which has no step {NODE}": NODE not in steps_of(facts),
        # Without an ML policy, Trainer does not set the resources.
        "mlPolicy": _policy(facts) is None,
    }
    return [reason for reason, holds in reasons.items() if holds]


def _policy(facts: Facts) -> Mapping[str, Any] | None:
    policy: Mapping[str, Any] | None = ((facts.runtime or {}).get("spec") or {}).get("mlPolicy")
    return policy


def _template(runtime: Mapping[str, Any]) -> Manifest:
    """The template of a runtime's JobSet."""
    template: Manifest = runtime["spec"]["template"]
    return template


def _differing(
    base: Mapping[str, Any], wanted: Mapping[str, Any], left_out: Mapping[str, Any], besides: Collection[str] = ()
) -> list[str]:
    """The names of the fields that differ.

    :param left_out: name -> the default of a field that is absent.
    :param besides: names of fields that may differ.
    """
    values = [{**left_out, **given} for given in (base, wanted)]
    names = dict.fromkeys((*base, *wanted))
    return [name for name in names if name not in besides and values[0].get(name) != values[1].get(name)]


def _of_job_set(base: Manifest, wanted: Manifest) -> list[str]:
    policies = [{**_FAILURE_POLICY, **(each.get("failurePolicy") or {})} for each in (base, wanted)]
    differing = _differing(base, wanted, {}, ("failurePolicy", "replicatedJobs"))
    return [*(["failurePolicy"] if policies[0] != policies[1] else []), *differing]


def _of_job(base: Manifest, wanted: Manifest) -> list[str]:
    """The differing fields of the nodes' Job, except its pods and their number, which Trainer sets."""
    jobs = [each.get("template") or {} for each in (base, wanted)]
    specs = [each.get("spec") or {} for each in jobs]
    return [
        *_differing(base, wanted, {"replicas": 1}, ("template",)),
        *_differing(jobs[0], jobs[1], {}, ("spec",)),
        *_differing(specs[0], specs[1], _JOB, ("template", "parallelism", "completions")),
    ]


def _patch(patches: PatchFields, base: Manifest, wanted: Manifest, beyond: list[str]) -> tuple[Manifest, Manifest]:
    """The metadata and the spec that are merged into those of the runtime's pods.

    :param beyond: receives the fields that cannot be merged.
    """
    metadatas = base.get("metadata") or {}, wanted.get("metadata") or {}
    beyond += _differing(*metadatas, {}, ("labels", "annotations"))
    # A patch cannot remove a key.
    beyond += _keys_lost(*metadatas)
    metadata = {name: added for name in ("labels", "annotations") if (added := _added(*metadatas, name))}
    specs = base.get("spec") or {}, wanted["spec"]
    spec = _changes(specs, _POD, ("containers",), patches.pod, beyond)
    (first, *others), (train, *rest) = containers_of(base) or [{}], containers_of(wanted)
    if first.get("name") != NODE or others != rest:
        beyond.append("containers")
        return metadata, spec
    of_container: list[str] = []
    both = _without_port(first), _without_port(train)
    changes = _changes(both, _CONTAINER, _TRAINERS, patches.container, of_container)
    beyond += [f"containers.{NODE}.{name}" for name in of_container]
    return metadata, {**spec, **({"containers": [{"name": NODE, **changes}]} if changes else {})}


def _changes(
    both: tuple[Manifest, Manifest],
    left_out: Mapping[str, Any],
    besides: Collection[str],
    fields: Mapping[str, Any],
    beyond: list[str],
) -> Manifest:
    """The fields that are merged into those of a pod, or of a container.

    :param both: the pod or container of the runtime, and that of the job.
    :param fields: the fields that can be merged, with their schemas.
    :param beyond: receives the other fields.
    """
    base, wanted = both
    changes = {}
    for name in _differing(base, wanted, left_out, besides):
        value = patch_for(name, base.get(name), wanted.get(name))
        if name in fields and value is not None and fits(value, fields[name]):
            changes[name] = value
        else:
            beyond.append(name)
    return changes


def _without_port(container: Manifest) -> Manifest:
    """A container without the port of the rendezvous, which Trainer adds as well. Listing a port opens nothing."""
    ports = [each for each in container.get("ports") or () if each.get("containerPort") != PORT]
    return {
        **{name: value for name, value in container.items() if name != "ports"},
        **({"ports": ports} if ports else {}),
    }


def _added(base: Mapping[str, Any], wanted: Mapping[str, Any], name: str) -> Manifest:
    """The labels or annotations that the runtime does not have, or has with another value."""
    old = base.get(name) or {}
    return {key: value for key, value in (wanted.get(name) or {}).items() if old.get(key) != value}


def _keys_lost(base: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The labels and annotations that only the runtime has."""
    return [
        f"{name}.{key}"
        for name in ("labels", "annotations")
        for key in base.get(name) or {}
        if key not in (wanted.get(name) or {})
    ]


def _trainer(job: JobPlan, facts: Facts, base: Manifest, wanted: Manifest, beyond: list[str]) -> Manifest:
    """The TrainJob's ``trainer``. The numbers of nodes and processes are always set: the job's annotations have the
    same numbers.
    """
    first, train = (training_container(containers_of(each), NODE) for each in (base, wanted))
    policy = _policy(facts) or {}
    source = next((name for name in _VARIABLES if policy.get(name) is not None), "")
    trainer: Manifest = {"numNodes": len(job.nodes)}
    if source == "torch":
        trainer["numProcPerNode"] = job.spec.num_proc_per_node
    trainer |= _words(first, train, beyond)
    trainer["env"] = _environment(job, _VARIABLES.get(source, ()), first, train, beyond)
    resources = train.get("resources") or {}
    if resources != (first.get("resources") or {}):
        trainer["resourcesPerNode"] = resources
        # Without resources, Trainer keeps those of the runtime.
        beyond += [] if resources else ["resources"]
    beyond += _meant_otherwise(trainer, source, resources)
    return trainer


def _words(first: Manifest, train: Manifest, beyond: list[str]) -> Manifest:
    """The image, the command and its arguments, where they are not the runtime's.

    :param beyond: receives the arguments, if the job leaves them out but the runtime has some.
    """
    words = {name: train[name] for name in _WORDS if name in train and train[name] != first.get(name)}
    if first.get("args") and "args" not in train:
        # An empty list does not last: a controller whose types omit it would change a field that is immutable.
        program, *options = train["command"]
        words |= {"command": [program], "args": options}
        beyond += [] if options else ["args"]
    return words


def _meant_otherwise(trainer: Manifest, source: str, resources: Mapping[str, Any]) -> list[str]:
    """The fields that Trainer would interpret differently from the job.

    :param source: of the ML policy.
    :param resources: of a node.
    """
    has_gpus = any("gpu" in name.lower() for side in ("limits", "requests") for name in resources.get(side) or ())
    reasons = {
        # Trainer and torchrun interpret "auto" differently.
        "num_proc_per_node": isinstance(trainer.get("numProcPerNode"), str),
        "command": source == "torch" and trainer.get("command") == _TORCHTUNE,
        # Trainer counts a worker for each GPU.
        "env.DMLC_NUM_WORKER": source == "xgboost" and has_gpus,
    }
    return [name for name, holds in reasons.items() if holds]


def _environment(
    job: JobPlan, trainers: Collection[str], first: Manifest, train: Manifest, beyond: list[str]
) -> list[Manifest]:
    """The variables that neither the runtime nor Trainer sets.

    :param trainers: the names of the variables that Trainer sets.
    :param beyond: receives those of them that the user sets.
    """
    base = first.get("env") or []
    beyond += [f"env.{name}" for name in trainers if name in _users_variables(job)]
    added = [each for each in train["env"] if each not in base and each["name"] not in trainers]
    # Trainer replaces a variable of the runtime in place, but may append its own variables.
    laid = {each["name"]: each for each in (*base, *added, *({"name": name} for name in trainers))}
    if in_order(list(laid.values())) != list(laid.values()):
        beyond.append("env, whose variables refer to later ones")
    return added


def _users_variables(job: JobPlan) -> set[str]:
    template = renamed(job.spec.pod_template or {})
    given = training_container(containers_of(template), NODE).get("env") or ()
    return {*job.leader.env, *(each["name"] for each in given)}
