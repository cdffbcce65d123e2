"""TrainJob of Kubeflow Trainer 2.1 to 2.3, with a runtime that is created for it, or directly from a named runtime.

The nodes of PyTorch, XGBoost and JAX are one replicated job, whose completion index is the rank. One template serves
all of them, so ``TRAINER_REPLICA`` is ``node-<rank>`` in the pods of a job that has a master in addition to its
workers. https://trainer.kubeflow.org
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.job.diagnosis.causes import DEADLINE
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.status import JobPhase, Progress
from airflow_trainer_provider.kinds.base import (
    SERVICES,
    ControllerStatus,
    Facts,
    Manifest,
    Meta,
    Rendered,
    ReplicaRef,
    Resource,
)
from airflow_trainer_provider.kinds.kept import check_clean_pods
from airflow_trainer_provider.kinds.kind import (
    Creation,
    Kind,
    ManifestRules,
    Renderer,
    Retention,
    RuntimeGroups,
    Suspension,
)
from airflow_trainer_provider.kinds.manifest_check import check_count
from airflow_trainer_provider.kinds.merge_patch import bounded
from airflow_trainer_provider.kinds.objects import files, ssh
from airflow_trainer_provider.kinds.objects.labels import PRIVATE_KEY, QUEUE, TRAINERS_SSH_SECRET, written_groups
from airflow_trainer_provider.kinds.objects.mpi_launch import check_forwarded, check_settings
from airflow_trainer_provider.kinds.objects.pod_check import (
    check_containers,
    check_variables,
    pod_fields,
    security_contexts,
)
from airflow_trainer_provider.kinds.objects.scheduling.gang import POD_GROUPS, check_gang, refuse_schedulers
from airflow_trainer_provider.kinds.status.pod_end import parse_time
from airflow_trainer_provider.kinds.trainer.direct import start_directly
from airflow_trainer_provider.kinds.trainer.initializers import initializer_of
from airflow_trainer_provider.kinds.trainer.ml_policy import with_runtime
from airflow_trainer_provider.kinds.trainer.training_runtime import (
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
    addresses_of,
    beside_launcher,
    check_own,
    leader_service,
    name_limit,
    parse_runtime_ref,
    ref_path,
    runtime_of,
    runtime_path,
    steps_of,
    tool_pod,
)
from airflow_trainer_provider.spec.values.names import is_subdomain

TRAIN_JOBS = Resource(GROUP_VERSION, "TrainJob", "trainjobs")
JOB_SETS = Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
#: The fields that must not differ between replicas whose pods share a template.
_SHARED = ("image", "command", "args", "env", "working_dir", "resources", "scheduling", "pod", "volumes")
#: The fields among them that have fields of their own, or values that may be secrets.
_NOT_SHOWN = ("env", "resources", "scheduling", "pod", "volumes")
#: The variables that Trainer sets in a launcher, overwriting those of the job.
_TRAINERS = frozenset(
    f"OMPI_MCA_{name}"
    for name in ("orte_default_hostfile", "plm_rsh_args", "orte_keep_fqdn_hostnames", "orte_set_default_slots")
)
#: The reason of a JobSet that failed because of a rule of its failure policy.
_BY_A_RULE = "FailJobSetFailurePolicyAction"
#: The action of a rule that fails the JobSet without a restart.
_FAIL = "FailJobSet"
_ENDS = {"Failed": JobPhase.FAILED, "Complete": JobPhase.SUCCEEDED}


def progress(main: Manifest) -> Progress | None:
    """The progress that a TrainJob reports; None where it reports none.

    :param main: the TrainJob.
    """
    reported = (main.get("status") or {}).get("trainerStatus")
    if not reported:
        return None
    return Progress(
        percent=reported.get("progressPercentage"),
        remaining_seconds=reported.get("estimatedRemainingSeconds"),
        metrics=dict(filter(None, map(_number, reported.get("metrics") or ()))),
    )


def _number(metric: Mapping[str, str]) -> tuple[str, float] | None:
    """A metric, which Trainer stores as a string; None where it is not a number that JSON can represent."""
    try:
        value = float(metric["value"])
    except ValueError:
        return None
    return (metric["name"], value) if math.isfinite(value) else None


def check(job: JobPlan) -> None:
    """Refuse what a TrainJob cannot express.

    :param job: the job.
    :raises SpecError: naming the field, its value and the way out.
    """
    if job.spec.runtime_name is not None:
        parse_runtime_ref(job.spec.runtime_name)
    check_containers(job, NODE)
    check_clean_pods(BACKEND, job)
    check_settings(BACKEND, job, ("is_node", "ssh_mount_path") if job.spec.runtime_ref else ("is_node",))
    if job.is_launched and job.spec.runtime_ref:
        fix = "Trainer sets {name} itself; give mpirun its options in command, or use another backend."
        check_variables(BACKEND, job, NODE, _TRAINERS, fix)
        check_forwarded(BACKEND, job, NODE)
        _check_user(job)
    _check_gang(job)
    first, *others = beside_launcher(job) or job.nodes
    for replica in others:
        for field in _SHARED:
            if getattr(replica, field) != getattr(first, field):
                raise UnsupportedField(BACKEND, _difference(job, first, replica, field))


def _check_user(job: JobPlan) -> None:
    contexts = security_contexts(job, NODE).items()
    users = [(f"{path}.runAsUser", context.get("runAsUser")) for path, context in contexts]
    for path, user in (*users, *pod_fields(job, "security.run_as_user")):
        if user is not None:
            allowed = "no value beside runtime_ref: Trainer's ssh key is for the user that the runtime names"
            fix = "Set the user in the runtime, or drop runtime_ref: ssh then runs as any user of the image."
            raise UnsupportedField(BACKEND, Problem(path, user, allowed, fix))


def _check_gang(job: JobPlan) -> None:
    fix = "Drop it: Trainer's PodGroup is for all pods and the sum of their requests; or use another backend."
    check_gang(BACKEND, job, len(job.replicas), dict.fromkeys(("min_available", "min_resources"), fix))
    if job.is_launched:
        allowed = (
            "kai: the launcher's pod comes once the nodes are ready, and Trainer's PodGroup waits for it with them"
        )
        fix = "Use backend 'mpi-operator' or 'native', or drop scheduling.gang."
        refuse_schedulers(BACKEND, job, POD_GROUPS, allowed, fix)


def _with_runtime(job: JobPlan, facts: Facts) -> JobPlan:
    """The job with the values of its runtime, which may add replicas that have not been checked yet."""
    whole = with_runtime(job, facts)
    if whole is not job:
        check(whole)
    return whole


def _difference(job: JobPlan, first: Replica, replica: Replica, field: str) -> Problem:
    path, value = job.source(replica, field)
    if not path.startswith("replicas."):
        path, value = job.source(first, field)
    shown = "a value" if field in _NOT_SHOWN else value
    fix = f"Give all nodes the same {field}, or use backend='native'."
    return Problem(path, shown, "one value for all nodes, whose pods share a template in a TrainJob", fix)


def _render(make_keys: ssh.MakeKeys, job: JobPlan, meta: Meta, facts: Facts) -> Rendered:
    """The TrainJob, preceded by its runtime if one is created, and followed by the objects that its pods mount.

    :param make_keys: makes the ssh key pair of a job whose launcher starts processes on other replicas.
    :param job: the job.
    :param meta: the metadata of its objects.
    :param facts: the installed CRD's schema, and the runtime that ``runtime_ref`` names.
    """
    own = _has_deadline(facts.schema)
    seconds = _deadline(job, own)
    # When Kueue admits a TrainJob, it writes the whole object, without the fields that the Kueue release does not know,
    # such as the deadline. So the Jobs of a queued TrainJob have the deadline as well.
    runtime = runtime_of(job, meta, facts, seconds if job.spec.queue_name or not own else None)
    deadline = {"activeDeadlineSeconds": seconds} if seconds is not None and own else {}
    if facts.runtime is None:
        return _with_own_runtime(make_keys, job, meta, runtime, deadline)
    fields, beyond = start_directly(job, facts, runtime)
    ref = job.spec.runtime_name
    if not beyond:
        resource, name = parse_runtime_ref(ref or "")
        note = f"The TrainJob starts from {resource.kind} {name} itself."
        return Rendered(_main(job, meta, resource.kind, name, {**fields, **_initializer(job), **deadline}), note=note)
    check_own(job, facts)
    rendered = _with_own_runtime(make_keys, job, meta, runtime, deadline, is_based=bool(steps_of(facts)))
    return replace(
        rendered, note=f"The job gets a runtime of its own, made from {ref}, because of {', '.join(beyond)}."
    )


def _initializer(job: JobPlan) -> Manifest:
    return {"initializer": initializer_of(job)} if job.spec.initializers else {}


def _with_own_runtime(
    make_keys: ssh.MakeKeys, job: JobPlan, meta: Meta, runtime: Manifest, deadline: Manifest, *, is_based: bool = False
) -> Rendered:
    """The TrainJob with a runtime that is created for it.

    :param deadline: fields of the TrainJob's spec.
    :param is_based: whether the runtime is based on a named one, whose ML policy it keeps under MPI.
    """
    nodes = len(job.nodes) if is_based else len(beside_launcher(job)) or 1
    spec: Manifest = {"trainer": {"numNodes": nodes}, **_initializer(job)}
    after: tuple[Manifest, ...] = ()
    if job.is_launched and is_based:
        # Without this field, Trainer uses the number of GPUs.
        spec["trainer"]["numProcPerNode"] = job.spec.num_proc_per_node
        meta = replace(meta, annotations={**meta.annotations, PRIVATE_KEY: f"{meta.name}{TRAINERS_SSH_SECRET}"})
    elif job.is_launched:
        contents = job.framework.files(job, addresses_of(job, meta.name))
        after = (files.config_map(meta, contents), ssh.secret(meta, make_keys()))
        meta = ssh.with_key(meta)
    main = _main(job, meta, TRAINING_RUNTIMES.kind, meta.name, {**spec, **deadline})
    service = (leader_service(meta),) if job.spec.elastic else ()
    return Rendered(main, before=(runtime, *service), after=after)


def _main(job: JobPlan, meta: Meta, kind: str, name: str, spec: Manifest) -> Manifest:
    """The TrainJob.

    :param kind: of its runtime.
    :param name: of its runtime.
    :param spec: its other fields.
    """
    # Kueue suspends an object with its label until the queue admits it.
    queue = {QUEUE: job.spec.queue_name} if job.spec.queue_name else {}
    runtime = {"apiGroup": GROUP_VERSION.partition("/")[0], "kind": kind, "name": name}
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": meta.name, "labels": {**meta.main_labels, **queue}, "annotations": dict(meta.annotations)},
        "spec": {"runtimeRef": runtime, **spec},
    }


def _deadline(job: JobPlan, own: bool) -> int | None:
    """The job's deadline in whole seconds, rounded up.

    :param own: whether the TrainJob has a field for it, so that not each of its Jobs needs the deadline.
    """
    deadline = job.spec.run_policy.active_deadline_seconds
    if deadline is not None and not own and job.spec.run_policy.backoff_limit:
        allowed = (
            "no value beside run_policy.backoff_limit: before Trainer 2.2 each attempt would have its own deadline"
        )
        fix = "Install Trainer 2.2 or newer, drop one of the two, or use another backend."
        raise UnsupportedField(BACKEND, Problem("run_policy.active_deadline_seconds", deadline, allowed, fix))
    return None if deadline is None else math.ceil(deadline)


def _has_deadline(schema: Mapping[str, Any] | None) -> bool:
    """Whether TrainJobs have a field for a deadline, as since 2.2; without a schema the newest release is assumed."""
    if schema is None:
        return True
    return "activeDeadlineSeconds" in schema["properties"]["spec"]["properties"]


def read(main: Manifest, children: Sequence[Manifest]) -> ControllerStatus:
    """The status that a TrainJob and its JobSet report.

    :param main: the TrainJob; its status has neither the start time nor the restarts.
    :param children: its JobSet, if it still exists.
    """
    counted = _counted(children)
    status = main.get("status") or {}
    held = {each["type"]: each for each in status.get("conditions") or () if each["status"] == "True"}
    for name, phase in _ENDS.items():
        if name in held:
            condition = held[name]
            ended = parse_time(condition["lastTransitionTime"])
            reason = DEADLINE if _ended_at_deadline(condition, children) else condition.get("reason")
            return ControllerStatus(phase, reason, condition.get("message"), finished_at=ended, **counted)
    if "Suspended" in held:
        condition = held["Suspended"]
        return ControllerStatus(JobPhase.SUSPENDED, condition.get("reason"), condition.get("message"), **counted)
    return ControllerStatus(**counted, keeps_complete=any(map(_is_last_attempt, children)))


def _is_last_attempt(job_set: Manifest) -> bool:
    """Whether the JobSet fails with the next of its Jobs that fails, and neither the JobSet nor a Job restarts complete
    pods.
    """
    spec = job_set.get("spec") or {}
    policy = spec.get("failurePolicy") or {}
    restarts: int = (job_set.get("status") or {}).get("restarts") or 0
    may_ignore_limit = any(rule.get("action") != _FAIL for rule in policy.get("rules") or ())
    is_last = restarts >= (policy.get("maxRestarts") or 0) and not may_ignore_limit
    # Trainer re-creates a deleted JobSet.
    is_there = "deletionTimestamp" not in job_set["metadata"]
    return is_last and is_there and all(map(_keeps_complete, spec.get("replicatedJobs") or ()))


def _keeps_complete(step: Manifest) -> bool:
    """Whether a Job does not replace a deleted pod that succeeds while it terminates."""
    job = step["template"].get("spec") or {}
    return job.get("backoffLimit") == 0 or "podFailurePolicy" in job or job.get("podReplacementPolicy") == "Failed"


def _counted(children: Sequence[Manifest]) -> dict[str, Any]:
    """How many times the JobSet has restarted the job, and the UID of that JobSet."""
    restarts = [(child.get("status") or {}).get("restarts") or 0 for child in children]
    return {"restarts": max(restarts, default=0), "job_set": children[0]["metadata"].get("uid") if children else None}


def _ended_at_deadline(condition: Mapping[str, Any], children: Sequence[Manifest]) -> bool:
    """Whether the JobSet failed because of the deadline of a Job. Its condition does not name the rule that applied.

    :param condition: the condition that ended the TrainJob.
    :param children: its JobSet.
    """
    rules = [
        rule for child in children for rule in ((child.get("spec") or {}).get("failurePolicy") or {}).get("rules") or ()
    ]
    only_deadline = len(rules) == 1 and rules[0].get("onJobFailureReasons") == [DEADLINE]
    return only_deadline and condition.get("reason") == _BY_A_RULE


def groups(main: Manifest) -> Mapping[str, int]:
    """How many replicas of each group, in the order of their ranks."""
    if written := written_groups(main):
        return written
    nodes = ((main["spec"].get("trainer") or {}).get("numNodes")) or 1
    # Only the status of a TrainJob that has started shows that it has a launcher.
    steps = {step["name"] for step in (main.get("status") or {}).get("jobsStatus") or ()}
    return {**({LAUNCHER: 1} if LAUNCHER in steps else {}), NODE: nodes}


def manifest_check(main: Manifest) -> None:
    """Refuse a manifest whose number of nodes, or whose runtime, cannot be read.

    :param main: the user's own TrainJob.
    :raises SpecError: naming the field and the way out.
    """
    check_count(main, "spec", "trainer", "numNodes")
    ref = main["spec"].get("runtimeRef")
    kinds = (TRAINING_RUNTIMES.kind, CLUSTER_TRAINING_RUNTIMES.kind)
    right = isinstance(ref, Mapping) and isinstance(ref.get("name"), str) and ref.get("kind") in (None, *kinds)
    if ref is not None and not (right and is_subdomain(ref["name"])):
        allowed = f"a mapping with a name, and the kind {' or '.join(kinds)}"
        raise SpecError([Problem("manifest.spec.runtimeRef", type(ref).__name__, allowed, "Correct runtimeRef.")])


def manifest_runtime(main: Manifest, namespace: str) -> str | None:
    """The path of a TrainJob's runtime, which may define the number of its nodes, and may have a launcher.

    :param main: the TrainJob, from a user's manifest.
    :param namespace: the TrainJob's namespace.
    """
    ref = main["spec"].get("runtimeRef")
    if not isinstance(ref, Mapping):
        return None
    return ref_path(f"{ref.get('kind') or CLUSTER_TRAINING_RUNTIMES.kind}/{ref.get('name', '')}", namespace)


def groups_with(main: Manifest, runtime: Manifest) -> Mapping[str, int]:
    """How many replicas of each group a TrainJob from a user's manifest has.

    :param main: the TrainJob.
    :param runtime: the runtime that it starts from.
    """
    spec = runtime.get("spec") or {}
    policy = spec.get("mlPolicy") or {}
    nodes = (main["spec"].get("trainer") or {}).get("numNodes") or policy.get("numNodes") or 1
    steps = {step["name"] for step in ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or ()}
    if LAUNCHER not in steps:
        return {NODE: nodes}
    # The launcher may be one of the nodes. Trainer starts at least one other node nevertheless.
    as_node = bool((policy.get("mpi") or {}).get("runLauncherAsNode"))
    return {LAUNCHER: 1, NODE: max(1, nodes - as_node)}


def replica_ref(pod: Manifest, main: Manifest) -> ReplicaRef | None:
    """The replica that a pod runs; None for the pods of initializers."""
    labels = pod["metadata"].get("labels") or {}
    step, index = labels.get(STEP_LABEL), labels.get(INDEX_LABEL)
    if index is None or step not in (NODE, LAUNCHER):
        return None
    if step == LAUNCHER:
        return ReplicaRef(LAUNCHER, int(index))
    position = int(index)
    for group, count in groups(main).items():
        if group == LAUNCHER:
            continue
        if position < count:
            return ReplicaRef(group, position)
        position -= count
    return None


def deadline(main: Manifest, seconds: int, facts: Facts) -> Manifest:
    """A user's own manifest with a deadline; unchanged before Trainer 2.2, where a TrainJob has no field for it."""
    if not _has_deadline(facts.schema):
        return main
    return bounded(main, {"spec": {"activeDeadlineSeconds": seconds}})


def suspend(suspended: bool) -> Manifest:
    """The merge patch that suspends or resumes the job."""
    return {"spec": {"suspend": suspended}}


def trainjob(make_keys: ssh.MakeKeys) -> Kind:
    """The kind, with its only source of randomness.

    :param make_keys: makes the ssh key pair of a job whose launcher starts processes on other replicas.
    """
    return Kind(
        key="trainjob",
        resource=TRAIN_JOBS,
        frameworks=frozenset({"pytorch", "mpi", "xgboost", "jax"}),
        read=read,
        groups=groups,
        replica_ref=replica_ref,
        container=lambda main, group: NODE,
        pod_label=JOB_SET_LABEL,
        suspension=Suspension(suspend),
        children=(JOB_SETS,),
        # Trainer rejects changes of a TrainJob whose runtime no longer exists, so the TrainJob would remain half
        # deleted for ever.
        retention=Retention(by_owner=False),
        progress=progress,
        runtime_groups=RuntimeGroups(path=manifest_runtime, groups=groups_with),
        creation=Creation(
            before=(TRAINING_RUNTIMES, SERVICES), reads_schema=True, unseen="spec.runtimeRef: Invalid value"
        ),
        renderer=Renderer(
            check=check,
            render=partial(_render, make_keys),
            name_limit=name_limit,
            tool_pod=tool_pod,
            runtime_path=runtime_path,
            with_runtime=_with_runtime,
        ),
        manifests=ManifestRules(check=manifest_check, deadline=deadline, name_limit=MANIFEST_NAME_LIMIT),
    )


TRAINJOB = trainjob(ssh.new_key_pair)
