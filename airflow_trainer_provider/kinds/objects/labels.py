"""Labels and annotations by which a task finds its jobs again, and which distinguish its jobs from others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import ValidationError

from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.job.plan.plan import JobPlan, ManifestPlan, Plan
from airflow_trainer_provider.kinds.base import Manifest, Meta
from airflow_trainer_provider.spec import PodSettings
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes

PREFIX = "airflow-trainer-provider"
MANAGED_BY = "app.kubernetes.io/managed-by"
#: The job's name; on everything that belongs to it, pods included.
JOB = f"{PREFIX}/job"
#: The task's key, the same for all its tries.
TASK = f"{PREFIX}/task-key"
#: A pod's replica group.
GROUP = f"{PREFIX}/group"

#: On the Service and the Ingress of a tool: the tool's name.
TOOL = f"{PREFIX}/tool"

#: There on what outlives the job that it was created for.
KEPT = f"{PREFIX}/kept"

#: Annotations of the main object.
IDENTITY = f"{PREFIX}/identity"
DIGEST = f"{PREFIX}/digest"
FRAMEWORK = f"{PREFIX}/framework"
#: How many replicas of each group, in the order of their ranks, as JSON.
GROUPS = f"{PREFIX}/groups"
#: Where the job's tools are reached: name -> address, as JSON.
TOOLS = f"{PREFIX}/tools"
#: There where each replica is one process, whose rank is the replica's.
RANKED = f"{PREFIX}/one-rank-each"
#: The try that waits for the job; only it may end it.
OWNER = f"{PREFIX}/owner"
#: There where the user wrote the main object.
MANIFEST = f"{PREFIX}/manifest"
#: The same on all objects that one attempt to submit has created before they had an owner.
SUBMISSION = f"{PREFIX}/submission"
#: Of which Airflow the submission is.
DEPLOYMENT = f"{PREFIX}/deployment"
#: There once everything that belongs to the job was created.
COMPLETE = f"{PREFIX}/complete"
#: There once the job has failed as a part of it was deleted: which one that is. Nothing else may show it later.
PART_DELETED = f"{PREFIX}/part-deleted"
#: There once the outcome has reached XCom, or the job has failed and its task is over: no task collects it any more.
COLLECTED = f"{PREFIX}/collected"
#: There once no task waits for the job any more: it outlives its task.
RELEASED = f"{PREFIX}/released"
#: What becomes of the job when its task is killed, and when its outcome is safe.
ON_KILL = f"{PREFIX}/on-kill"
ON_FINISH = f"{PREFIX}/on-finish"
#: Which exit codes start the job again, and which end it, as JSON.
EXIT_CODES = f"{PREFIX}/exit-codes"
#: Which pods go once the outcome is safe, where some do.
CLEAN_PODS = f"{PREFIX}/clean-pods"
#: Seconds until a job that is kept goes.
TTL = f"{PREFIX}/ttl-seconds"
#: There where the number of nodes may vary.
ELASTIC = f"{PREFIX}/elastic"
#: The groups without whose replicas the job can succeed, as a JSON list.
OPTIONAL = f"{PREFIX}/optional-groups"
#: Which replicas were taken away and ended with exit code 0, as JSON.
DISRUPTED = f"{PREFIX}/disrupted"
#: The Secret with a private key of the job's own; it goes once the job has ended.
PRIVATE_KEY = f"{PREFIX}/private-key"
#: What the name of that Secret has after the job's name: where the provider or the MPI Operator creates it, and where
#: Trainer does.
SSH_SECRET, TRAINERS_SSH_SECRET = "-ssh", "-mpi-ssh-auth"
#: Why the job should end; there once it should.
CANCELLED = f"{PREFIX}/cancelled"

#: Kueue's: the LocalQueue that admits what carries it.
QUEUE = "kueue.x-k8s.io/queue-name"

#: Finds all jobs of this provider.
OURS = f"{MANAGED_BY}={PREFIX}"

_LABEL_LENGTH = 63
#: A group of more is a mistake, and too large to be listed.
_MOST_REPLICAS = 100_000


def meta_of(job: JobPlan, identity: Identity, name: str, digest: str | None = None) -> Meta:
    """What is written on the objects of a task's job.

    :param job: what to run.
    :param identity: the task, and its try.
    :param name: the job's name.
    :param digest: of the spec that the task gave, where the job has values from elsewhere as well.
    """
    groups: dict[str, int] = {}
    for replica in job.replicas:
        groups[replica.group] = groups.get(replica.group, 0) + 1
    ranked = {RANKED: "true"} if job.one_rank_each else {}
    codes = job.spec.run_policy.exit_codes
    declared = {} if codes is None else {EXIT_CODES: codes.model_dump_json(exclude_none=True)}
    if job.spec.run_policy.clean_pods == "All":
        declared[CLEAN_PODS] = "All"
    if job.spec.elastic:
        declared[ELASTIC] = "true"
    optional = [group for group in groups if not job.framework.role(group).waited_for]
    if optional:
        declared[OPTIONAL] = json.dumps(optional)
    given_digest = {} if digest is None else {DIGEST: digest}
    meta = _meta(job, identity, name, {GROUPS: json.dumps(groups), **given_digest})
    given = job.spec.pod or PodSettings()
    return Meta(name, meta.labels, {**given.annotations, **meta.annotations, **ranked, **declared}, given.labels)


def meta_of_manifest(job: ManifestPlan, identity: Identity, name: str) -> Meta:
    """What is written on a manifest of the user's own.

    :param job: what to run.
    :param identity: the task, and its try.
    :param name: the job's name.
    """
    return _meta(job, identity, name, {MANIFEST: "true"})


def _meta(job: Plan, identity: Identity, name: str, annotations: Mapping[str, str]) -> Meta:
    ttl = job.spec.run_policy.ttl_seconds_after_finished
    return Meta(
        name=name,
        labels={
            MANAGED_BY: PREFIX,
            JOB: name,
            TASK: identity.key,
            f"{PREFIX}/dag": label_value(identity.dag_id),
            f"{PREFIX}/task": label_value(identity.task_id),
        },
        annotations={
            IDENTITY: identity.model_dump_json(exclude_none=True),
            DIGEST: spec_digest(job.spec),
            FRAMEWORK: job.framework.name,
            OWNER: str(identity.try_number),
            **annotations,
            ON_KILL: job.spec.on_kill_action,
            ON_FINISH: job.spec.on_finish_action,
            **({} if ttl is None else {TTL: str(ttl)}),
        },
    )


def written_groups(main: Manifest) -> dict[str, int]:
    """How many replicas of each group a main object says it has, in the order of their ranks.

    :param main: the main object. One that says nothing, or what this provider does not write, has none.
    """
    try:
        groups = json.loads((main["metadata"].get("annotations") or {}).get(GROUPS) or "{}")
        counts = {str(name): int(count) for name, count in groups.items()}
    except (AttributeError, OverflowError, TypeError, ValueError):
        return {}
    return counts if all(0 < count <= _MOST_REPLICAS for count in counts.values()) else {}


def optional_groups(main: Manifest) -> frozenset[str] | None:
    """The groups without whose replicas the job can succeed; None where that is not known.

    :param main: the main object. One that this provider did not render says nothing.
    """
    annotations = main["metadata"].get("annotations") or {}
    if GROUPS not in annotations:
        return None
    try:
        groups = json.loads(annotations.get(OPTIONAL) or "[]")
    except ValueError:
        return None
    return frozenset(map(str, groups)) if isinstance(groups, list) else None


def is_elastic(main: Manifest) -> bool:
    """Whether the number of a job's nodes may vary, as its main object says."""
    return ELASTIC in (main["metadata"].get("annotations") or {})


def exit_codes_of(main: Manifest) -> ExitCodes | None:
    """What a job's spec says of exit codes; None where it says nothing, or the annotation cannot be read.

    :param main: the main object.
    """
    text = (main["metadata"].get("annotations") or {}).get(EXIT_CODES)
    try:
        return None if text is None else ExitCodes.model_validate_json(text)
    except ValidationError:
        return None


def written_tools(main: Manifest) -> dict[str, str]:
    """Where the tools of a job are reached, as its main object says: name -> address.

    :param main: the main object. One that says nothing, or what this provider does not write, has none.
    """
    try:
        tools = json.loads((main["metadata"].get("annotations") or {}).get(TOOLS) or "{}")
    except (TypeError, ValueError):
        return {}
    is_right = isinstance(tools, dict) and all(isinstance(url, str) for url in tools.values())
    return tools if is_right else {}


def label_value(text: str) -> str:
    """The text as a label may hold it; other characters become ``_``, and what is too long is cut off."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:_LABEL_LENGTH].strip("_.-")
