"""Labels and annotations by which a task finds its jobs again, and by which jobs are told from others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.kinds.base import Meta

if TYPE_CHECKING:
    from airflow_trainer_provider.kinds.manifest import ManifestJob

PREFIX = "airflow-trainer-provider"
MANAGED_BY = "app.kubernetes.io/managed-by"
#: The job's name; on everything that belongs to it, pods included.
JOB = f"{PREFIX}/job"
#: The task's key, the same for all its tries.
TASK = f"{PREFIX}/task-key"
#: A pod's replica group.
GROUP = f"{PREFIX}/group"

#: Annotations of the main object.
IDENTITY = f"{PREFIX}/identity"
DIGEST = f"{PREFIX}/digest"
FRAMEWORK = f"{PREFIX}/framework"
#: How many replicas of each group, in the order of their ranks, as JSON.
GROUPS = f"{PREFIX}/groups"
#: There where each replica is one process, whose rank is the replica's.
RANKED = f"{PREFIX}/one-rank-each"
#: The try that waits for the job; only it may end it.
OWNER = f"{PREFIX}/owner"
#: There where the user wrote the main object.
MANIFEST = f"{PREFIX}/manifest"
#: There once everything that belongs to the job was created.
COMPLETE = f"{PREFIX}/complete"
#: There once the outcome has reached XCom.
COLLECTED = f"{PREFIX}/collected"
#: What becomes of the job when its task is killed, and when its outcome is safe.
ON_KILL = f"{PREFIX}/on-kill"
ON_FINISH = f"{PREFIX}/on-finish"
#: Seconds until a job that is kept goes.
TTL = f"{PREFIX}/ttl-seconds"
#: Why the job should end; there once it should.
CANCELLED = f"{PREFIX}/cancelled"

#: Finds all jobs of this provider.
OURS = f"{MANAGED_BY}={PREFIX}"

_LABEL_LENGTH = 63


def meta_of(job: Job, identity: Identity, name: str) -> Meta:
    """What is written on the objects of a task's job.

    :param job: what to run.
    :param identity: the task, and its try.
    :param name: the job's name.
    """
    groups: dict[str, int] = {}
    for replica in job.replicas:
        groups[replica.group] = groups.get(replica.group, 0) + 1
    ranked = {RANKED: "true"} if job.one_rank_each else {}
    meta = _meta(job, identity, name, {GROUPS: json.dumps(groups)})
    return Meta(name, meta.labels, {**meta.annotations, **ranked})


def meta_of_manifest(job: ManifestJob, identity: Identity, name: str) -> Meta:
    """What is written on a manifest of the user's own.

    :param job: what to run.
    :param identity: the task, and its try.
    :param name: the job's name.
    """
    return _meta(job, identity, name, {MANIFEST: "true"})


def _meta(job: Job | ManifestJob, identity: Identity, name: str, annotations: Mapping[str, str]) -> Meta:
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
            IDENTITY: identity.model_dump_json(),
            DIGEST: spec_digest(job.spec),
            FRAMEWORK: job.framework.name,
            OWNER: str(identity.try_number),
            **annotations,
            ON_KILL: job.spec.on_kill_action,
            ON_FINISH: job.spec.on_finish_action,
            **({} if ttl is None else {TTL: str(ttl)}),
        },
    )


def label_value(text: str) -> str:
    """The text as a label may hold it; other characters become ``_``, and what is too long is cut off."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:_LABEL_LENGTH].strip("_.-")
