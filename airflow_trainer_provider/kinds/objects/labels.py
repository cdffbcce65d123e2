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

#: Present on an object that outlives the job for which it was created.
KEPT = f"{PREFIX}/kept"

#: Annotations of the main object.
IDENTITY = f"{PREFIX}/identity"
DIGEST = f"{PREFIX}/digest"
FRAMEWORK = f"{PREFIX}/framework"
#: How many replicas of each group, in the order of their ranks, as JSON.
GROUPS = f"{PREFIX}/groups"
#: The addresses of the job's tools: name -> address, as JSON.
TOOLS = f"{PREFIX}/tools"
#: Present where each replica is one process, whose rank is the replica's.
RANKED = f"{PREFIX}/one-rank-each"
#: The try that waits for the job; only it may end it.
OWNER = f"{PREFIX}/owner"
#: Present where the user wrote the main object.
MANIFEST = f"{PREFIX}/manifest"
#: The same value on all objects that one attempt to submit has created before they had an owner.
SUBMISSION = f"{PREFIX}/submission"
#: The Airflow deployment that the submission comes from.
DEPLOYMENT = f"{PREFIX}/deployment"
#: Present once all objects of the job have been created.
COMPLETE = f"{PREFIX}/complete"
#: Present once the job has failed because a part of it was deleted; names that part. Later, nothing else may show it.
PART_DELETED = f"{PREFIX}/part-deleted"
#: Present once the outcome has reached XCom, or the job has failed and its task is over: no task collects the outcome
#: any more.
COLLECTED = f"{PREFIX}/collected"
#: Present once no task waits for the job any more: the job outlives its task.
RELEASED = f"{PREFIX}/released"
#: The action on the job when its task is killed, and when its outcome is safe.
ON_KILL = f"{PREFIX}/on-kill"
ON_FINISH = f"{PREFIX}/on-finish"
#: Which exit codes restart the job, and which end it, as JSON.
EXIT_CODES = f"{PREFIX}/exit-codes"
#: Which pods are deleted once the outcome is safe, if any are.
CLEAN_PODS = f"{PREFIX}/clean-pods"
#: Seconds until a kept job is deleted.
TTL = f"{PREFIX}/ttl-seconds"
#: Present where the number of nodes may vary.
ELASTIC = f"{PREFIX}/elastic"
#: The groups whose replicas the job can succeed without, as a JSON list.
OPTIONAL = f"{PREFIX}/optional-groups"
#: The replicas that were disrupted and ended with exit code 0, as JSON.
DISRUPTED = f"{PREFIX}/disrupted"
#: The name of the Secret with the job's private key; the Secret is deleted once the job has ended.
PRIVATE_KEY = f"{PREFIX}/private-key"
#: The suffix of that Secret's name: where the provider or the MPI Operator creates it, and where Trainer does.
SSH_SECRET, TRAINERS_SSH_SECRET = "-ssh", "-mpi-ssh-auth"
#: Why the job was cancelled; present once it was.
CANCELLED = f"{PREFIX}/cancelled"

#: Kueue's label: the LocalQueue that admits an object.
QUEUE = "kueue.x-k8s.io/queue-name"

#: The label selector for all jobs of this provider.
OURS = f"{MANAGED_BY}={PREFIX}"

_LABEL_LENGTH = 63
#: A group with more replicas is a mistake, and too large to be listed.
_MOST_REPLICAS = 100_000


def meta_of(job: JobPlan, identity: Identity, name: str, digest: str | None = None) -> Meta:
    """The metadata of the objects of a task's job.

    :param job: what to run.
    :param identity: the task, and its try.
    :param name: the job's name.
    :param digest: the digest of the spec that the task gave, where the job also has values from elsewhere.
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
    """The metadata that is added to a user's own manifest.

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
    """How many replicas of each group a job has according to its main object, in the order of their ranks.

    :param main: the main object. Empty without the annotation, or where this provider did not write it.
    """
    try:
        groups = json.loads((main["metadata"].get("annotations") or {}).get(GROUPS) or "{}")
        counts = {str(name): int(count) for name, count in groups.items()}
    except (AttributeError, OverflowError, TypeError, ValueError):
        return {}
    return counts if all(0 < count <= _MOST_REPLICAS for count in counts.values()) else {}


def optional_groups(main: Manifest) -> frozenset[str] | None:
    """The groups whose replicas the job can succeed without; None where they are unknown.

    :param main: the main object. One that this provider did not render does not have the annotation.
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
    """Whether the number of a job's nodes may vary, according to its main object."""
    return ELASTIC in (main["metadata"].get("annotations") or {})


def exit_codes_of(main: Manifest) -> ExitCodes | None:
    """The exit codes of a job's spec; None where it has none, or where the annotation cannot be read.

    :param main: the main object.
    """
    text = (main["metadata"].get("annotations") or {}).get(EXIT_CODES)
    try:
        return None if text is None else ExitCodes.model_validate_json(text)
    except ValidationError:
        return None


def written_tools(main: Manifest) -> dict[str, str]:
    """The addresses of a job's tools, according to its main object: name -> address.

    :param main: the main object. Empty without the annotation, or where this provider did not write it.
    """
    try:
        tools = json.loads((main["metadata"].get("annotations") or {}).get(TOOLS) or "{}")
    except (TypeError, ValueError):
        return {}
    is_right = isinstance(tools, dict) and all(isinstance(url, str) for url in tools.values())
    return tools if is_right else {}


def label_value(text: str) -> str:
    """The text as a valid label value: other characters become ``_``, and text beyond the maximum length is cut off."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:_LABEL_LENGTH].strip("_.-")
