"""TrainJob of Kubeflow Trainer 2.1 to 2.3, with a runtime of its own.

The nodes of PyTorch, XGBoost and JAX are one replicated job, whose completion index is the rank. One template serves
all of them, so ``TRAINER_REPLICA`` is ``node-<rank>`` in the pods of a job that has a master beside its workers.
https://trainer.kubeflow.org
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.job.status import JobPhase, Progress
from airflow_trainer_provider.kinds.base import Facts, Kind, Manifest, Meta, Place, Rendered, Resource, Standing
from airflow_trainer_provider.kinds.events import QUEUE_LABEL
from airflow_trainer_provider.kinds.labels import GROUPS
from airflow_trainer_provider.kinds.pod import check_images
from airflow_trainer_provider.kinds.pod_end import parse_time
from airflow_trainer_provider.kinds.training_runtime import (
    BACKEND,
    CLUSTER_TRAINING_RUNTIMES,
    GROUP_VERSION,
    INDEX_LABEL,
    JOB_SET_LABEL,
    LAUNCHER,
    MANIFEST_NAME_LIMIT,
    NODE,
    STEP_LABEL,
    TRAINING_RUNTIMES,
    is_launched,
    leader_service,
    name_limit,
    parse_runtime_ref,
    ref_path,
    runtime_of,
    runtime_path,
)

TRAIN_JOBS = Resource(GROUP_VERSION, "TrainJob", "trainjobs")
JOB_SETS = Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
#: What may not differ between replicas whose pods share a template.
_SHARED = ("image", "command", "args", "env", "working_dir", "resources")
#: Trainer writes these into a launcher, over what the job says.
_TRAINERS = frozenset(
    f"OMPI_MCA_{name}"
    for name in ("orte_default_hostfile", "plm_rsh_args", "orte_keep_fqdn_hostnames", "orte_set_default_slots")
)
_ENDS = {"Failed": JobPhase.FAILED, "Complete": JobPhase.SUCCEEDED}


def progress(main: Manifest) -> Progress | None:
    """How far a TrainJob's training is; None where nobody has told.

    :param main: the TrainJob.
    """
    told = (main.get("status") or {}).get("trainerStatus")
    if not told:
        return None
    return Progress(
        percent=told.get("progressPercentage"),
        remaining_seconds=told.get("estimatedRemainingSeconds"),
        metrics=dict(filter(None, map(_number, told.get("metrics") or ()))),
    )


def _number(metric: Mapping[str, str]) -> tuple[str, float] | None:
    """A metric, which Trainer keeps as a text; None where it is no number that JSON has."""
    try:
        value = float(metric["value"])
    except ValueError:
        return None
    return (metric["name"], value) if math.isfinite(value) else None


def check(job: Job) -> None:
    """Refuse what a TrainJob cannot express.

    :param job: the job.
    :raises SpecError: naming the field, its value and the way out.
    """
    if job.spec.runtime_ref is not None:
        parse_runtime_ref(job.spec.runtime_ref)
    else:
        check_images(job, NODE)
    ttl = job.spec.run_policy.ttl_seconds_after_finished
    if ttl is not None:
        allowed = "no value: Trainer deletes no TrainJob"
        fix = "Drop it, or set on_finish_action='delete'."
        raise UnsupportedField(BACKEND, Problem("run_policy.ttl_seconds_after_finished", ttl, allowed, fix))
    for name in sorted(_TRAINERS & job.leader.env.keys()) if is_launched(job) else ():
        fix = "Give mpirun its options in command, or use another backend."
        field, _ = job.source(job.leader, "env")
        raise UnsupportedField(BACKEND, Problem(field, name, "variables that Trainer does not set itself", fix))
    first = job.nodes[0]
    for replica in job.nodes[1:]:
        for field in _SHARED:
            if getattr(replica, field) != getattr(first, field):
                raise UnsupportedField(BACKEND, _difference(job, first, replica, field))


def _difference(job: Job, first: Replica, replica: Replica, field: str) -> Problem:
    path, value = job.source(replica, field)
    if not path.startswith("replicas."):
        path, value = job.source(first, field)
    shown = "a value" if field in ("env", "resources") else value
    fix = f"Give all nodes the same {field}, or use backend='native'."
    return Problem(path, shown, "one value for all nodes, whose pods share a template in a TrainJob", fix)


def render(job: Job, meta: Meta, facts: Facts) -> Rendered:
    """The TrainJob, and before it its runtime.

    :param job: the job.
    :param meta: what is written on its objects.
    :param facts: the installed CRD's schema, and the runtime that ``runtime_ref`` names.
    """
    deadline = job.spec.run_policy.active_deadline_seconds
    seconds = None if deadline is None else math.ceil(deadline)
    own = _has_deadline(facts.schema)
    if seconds is not None and not own and job.spec.run_policy.backoff_limit:
        allowed = (
            "no value beside run_policy.backoff_limit: before Trainer 2.2 each attempt would have its own deadline"
        )
        fix = "Install Trainer 2.2 or newer, drop one of the two, or use another backend."
        raise UnsupportedField(BACKEND, Problem("run_policy.active_deadline_seconds", deadline, allowed, fix))
    # Kueue itself suspends what carries its label, until the queue admits it.
    queue = {QUEUE_LABEL: job.spec.queue_name} if job.spec.queue_name else {}
    spec: Manifest = {
        "runtimeRef": {
            "apiGroup": GROUP_VERSION.partition("/")[0],
            "kind": TRAINING_RUNTIMES.kind,
            "name": meta.name,
        },
        "trainer": {"numNodes": len(job.nodes)},
    }
    if is_launched(job):
        # Without it, Trainer makes it the number of GPUs.
        spec["trainer"]["numProcPerNode"] = job.spec.num_proc_per_node
    if seconds is not None and own:
        spec["activeDeadlineSeconds"] = seconds
    main: Manifest = {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": meta.name, "labels": {**meta.labels, **queue}, "annotations": dict(meta.annotations)},
        "spec": spec,
    }
    runtime = runtime_of(job, meta, facts, None if own else seconds)
    service = (leader_service(meta),) if job.spec.elastic else ()
    return Rendered(main, before=(runtime, *service))


def _has_deadline(schema: Mapping[str, Any] | None) -> bool:
    """Whether TrainJobs have a deadline of their own, as since 2.2; without a schema the newest is assumed."""
    if schema is None:
        return True
    return "activeDeadlineSeconds" in schema["properties"]["spec"]["properties"]


def read(main: Manifest, children: Sequence[Manifest]) -> Standing:
    """What a TrainJob and its JobSet say.

    :param main: the TrainJob, which tells neither its start nor its restarts.
    :param children: its JobSet, where it is still there.
    """
    restarts = max(((child.get("status") or {}).get("restarts") or 0 for child in children), default=0)
    status = main.get("status") or {}
    held = {each["type"]: each for each in status.get("conditions") or () if each["status"] == "True"}
    for name, phase in _ENDS.items():
        if name in held:
            condition = held[name]
            ended = parse_time(condition["lastTransitionTime"])
            return Standing(
                phase, condition.get("reason"), condition.get("message"), finished_at=ended, restarts=restarts
            )
    if "Suspended" in held:
        condition = held["Suspended"]
        return Standing(JobPhase.SUSPENDED, condition.get("reason"), condition.get("message"), restarts=restarts)
    return Standing(restarts=restarts)


def groups(main: Manifest) -> Mapping[str, int]:
    """How many replicas of each group, in the order of their ranks."""
    written = (main["metadata"].get("annotations") or {}).get(GROUPS)
    if written:
        return dict(json.loads(written))
    nodes = ((main["spec"].get("trainer") or {}).get("numNodes")) or 1
    # Only a TrainJob that runs tells that it has a launcher.
    steps = {step["name"] for step in (main.get("status") or {}).get("jobsStatus") or ()}
    return {**({LAUNCHER: 1} if LAUNCHER in steps else {}), NODE: nodes}


def manifest_runtime(main: Manifest, namespace: str) -> str | None:
    """The path of the runtime that a TrainJob leaves the number of its nodes to, or may have a launcher from.

    :param main: the TrainJob, which somebody else wrote.
    :param namespace: where it is.
    """
    ref = main["spec"].get("runtimeRef")
    if not isinstance(ref, Mapping):
        return None
    return ref_path(f"{ref.get('kind') or CLUSTER_TRAINING_RUNTIMES.kind}/{ref.get('name', '')}", namespace)


def groups_with(main: Manifest, runtime: Manifest) -> Mapping[str, int]:
    """How many replicas of each group a TrainJob has that somebody else wrote.

    :param main: the TrainJob.
    :param runtime: the one that it starts from.
    """
    spec = runtime.get("spec") or {}
    policy = spec.get("mlPolicy") or {}
    nodes = (main["spec"].get("trainer") or {}).get("numNodes") or policy.get("numNodes") or 1
    steps = {step["name"] for step in ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or ()}
    if LAUNCHER not in steps:
        return {NODE: nodes}
    # The launcher is one of the nodes then.
    return {LAUNCHER: 1, NODE: nodes - bool((policy.get("mpi") or {}).get("runLauncherAsNode"))}


def place(pod: Manifest, main: Manifest) -> Place | None:
    """The replica that a pod is; None for those of initializers."""
    labels = pod["metadata"].get("labels") or {}
    step, index = labels.get(STEP_LABEL), labels.get(INDEX_LABEL)
    if index is None or step not in (NODE, LAUNCHER):
        return None
    if step == LAUNCHER:
        return LAUNCHER, int(index)
    position = int(index)
    for group, count in groups(main).items():
        if group == LAUNCHER:
            continue
        if position < count:
            return group, position
        position -= count
    return None


def suspend(suspended: bool) -> Manifest:
    """The merge patch that stops the job, or lets it go on."""
    return {"spec": {"suspend": suspended}}


TRAINJOB = Kind(
    key="trainjob",
    resource=TRAIN_JOBS,
    frameworks=frozenset({"pytorch", "mpi", "xgboost", "jax"}),
    render=render,
    read=read,
    groups=groups,
    place=place,
    pod_label=JOB_SET_LABEL,
    name_limit=name_limit,
    suspend=suspend,
    check=check,
    children=(JOB_SETS,),
    unseen="spec.runtimeRef: Invalid value",
    reads_schema=True,
    progress=progress,
    runtime=runtime_path,
    manifest_name_limit=MANIFEST_NAME_LIMIT,
    manifest_runtime=manifest_runtime,
    groups_with=groups_with,
)
