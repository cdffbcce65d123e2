"""Plain Kubernetes, nothing installed: Indexed Jobs below a headless Service.

The Service stands for the job and owns all the rest. It gives each Pod a name that is known beforehand, so the
variables of the rendezvous can be written into the templates. Another one gives rank 0 a name without a domain.

The Pods of an Indexed Job share a template, in which the completion index is all that differs: Kubernetes puts it in
the place of ``$(TRAINER_INDEX)``. It cannot count: a worker's rank, which is its index and one for the master, cannot
be written so, and a shell that could need not be in the image. So replicas share a Job where their settings are equal
and the completion index is their index in the group, or their rank, whichever their framework asks for:

- TensorFlow's roles and JAX's workers: one Job for each group;
- PyTorch and XGBoost: one Job for master and workers together, where it also counts as one for Kueue, and where a
  failure ends all at once;
- a replica with settings of its own, as Paddle's rank 0 is, and those whose rank it puts out of reach: a Job each.

Which rank its first Pod has is a label of each Job. That names the replicas, whatever shares a Job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from airflow_trainer_provider.frameworks import MODULES
from airflow_trainer_provider.frameworks.base import Addresses
from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.kinds import native_ssh
from airflow_trainer_provider.kinds.base import JOBS, SERVICES, Facts, Kind, Manifest, Meta, Place, Rendered
from airflow_trainer_provider.kinds.labels import GROUP, JOB
from airflow_trainer_provider.kinds.native_blocks import INDEX_REFERENCE, Block, addresses_of, blocks, environment_of
from airflow_trainer_provider.kinds.native_check import check
from airflow_trainer_provider.kinds.native_read import FIRST_RANK, QUEUE, WAITED_FOR, groups_of, read
from airflow_trainer_provider.kinds.pod import TRAINING_CONTAINER, label_index, pod_template

_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_FAILURE_COUNT = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"
_FILES_FOLDER = "/etc/trainer-files"
_FILES_VOLUME = "trainer-files"
_LABEL_LENGTH = 63
#: "-abcde", which the Job's controller adds to a Pod's name.
_RANDOM_LENGTH = 6


def _render(make_keys: native_ssh.MakeKeys, job: Job, meta: Meta, facts: Facts) -> Rendered:
    parts = blocks(job)
    addresses = addresses_of(meta.name, parts)
    files = dict(job.framework.files(job, addresses))
    labels = dict(meta.labels)
    leader = {JOB: meta.name, FIRST_RANK: "0", _COMPLETION_INDEX: "0"}
    # Without the labels by which a task finds its jobs: only the main object stands for one.
    after = [_service(addresses[job.leader.name].host, Meta(meta.name, {JOB: meta.name}), leader)]
    if files:
        after.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{meta.name}-files", "labels": labels},
                "data": files,
            }
        )
    if _needs_ssh(job):
        after.append(native_ssh.secret(f"{meta.name}-ssh", labels, make_keys(), domain=meta.name))
    after += [_indexed_job(job, meta, block, addresses, bool(files)) for block in parts]
    return Rendered(main=_service(meta.name, meta, {JOB: meta.name}), after=tuple(after))


def _service(name: str, meta: Meta, selector: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": dict(meta.labels), "annotations": dict(meta.annotations)},
        "spec": {
            "clusterIP": "None",
            # The replicas look each other up before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": selector,
        },
    }


def _indexed_job(job: Job, meta: Meta, block: Block, addresses: Addresses, has_files: bool) -> Manifest:
    policy, size = job.spec.run_policy, len(block.replicas)
    labels = {
        **meta.labels,
        **({GROUP: block.first.group} if block.one_group else {}),
        FIRST_RANK: str(block.first.rank),
        WAITED_FOR: str(job.framework.role(block.first.group).waited_for).lower(),
        **({QUEUE: job.spec.queue_name} if job.spec.queue_name else {}),
    }
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": size,
        "parallelism": size,
        **_failure_policy(job, size),
        "podReplacementPolicy": "Failed",
    }
    if policy.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = math.ceil(policy.active_deadline_seconds)
    spec["template"] = _template(job, meta, block, addresses, has_files)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": block.job_name(meta.name), "labels": labels},
        "spec": spec,
    }


def _restarts(job: Job) -> int:
    """How often each replica may be started again."""
    return job.spec.run_policy.backoff_limit + (job.spec.elastic.max_restarts if job.spec.elastic else 0)


def _failure_policy(job: Job, size: int) -> Manifest:
    restarts = _restarts(job)
    if not restarts:
        lost = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        # It fails either way; with the rule, the Job says that the Pod was evicted.
        return {"backoffLimit": 0, "podFailurePolicy": {"rules": [lost]}}
    # A failure of one replica brings the others down, and all are started again: each counts its own. The limit of
    # them all is never reached first; it is written down because its default is 6 where the others are not known.
    return {"backoffLimit": restarts * size, "backoffLimitPerIndex": restarts, "maxFailedIndexes": 0}


def _template(job: Job, meta: Meta, block: Block, addresses: Addresses, has_files: bool) -> Manifest:
    first, role = block.first, job.framework.role(block.first.group)
    shared = len(block.replicas) > 1
    env: dict[str, str | Mapping[str, Any]] = {
        "TRAINER_ATTEMPT": {"fieldRef": {"fieldPath": _FAILURE_COUNT}} if _restarts(job) else "0",
        **({"TRAINER_FILES": _FILES_FOLDER} if has_files else {}),
        **environment_of(job, block, addresses),
    }
    if not block.one_group:
        # The group is not the same for all, and the rank is all that a Pod is told.
        env = {"TRAINER_REPLICA": f"rank-{INDEX_REFERENCE}", **env}
    template = pod_template(
        job,
        first,
        meta,
        container=TRAINING_CONTAINER,
        index=label_index(_COMPLETION_INDEX) if shared else str(first.index),
        env=env,
        command=_command(job, first, addresses),
        restart_policy="Never",
    )
    labels, spec = template["metadata"]["labels"], template["spec"]
    if not block.one_group:
        del labels[GROUP]
    labels[FIRST_RANK] = str(first.rank)
    spec["subdomain"] = meta.name
    if has_files:
        _mount_files(spec, meta)
    if _needs_ssh(job):
        native_ssh.mount(template, f"{meta.name}-ssh")
        if role.runs_command:
            hosts = [addresses[each.name] for each in job.replicas if not job.framework.role(each.group).runs_command]
            native_ssh.wait_for(template, hosts)
    return template


def _command(job: Job, replica: Replica, addresses: Addresses) -> Sequence[str] | None:
    """What takes the place of the replica's own command line; None where nothing does."""
    if not job.framework.role(replica.group).runs_command:
        return native_ssh.SERVER
    # Without a command the image's own is run, and nobody knows what it is.
    if _needs_ssh(job) and replica.command:
        return native_ssh.launching(replica.argv, addresses[job.nodes[0].name])
    return None


def _mount_files(spec: Manifest, meta: Meta) -> None:
    volume = {"name": _FILES_VOLUME, "configMap": {"name": f"{meta.name}-files"}}
    spec["volumes"] = [*spec.get("volumes", []), volume]
    container = spec["containers"][0]
    mounted = {"name": _FILES_VOLUME, "mountPath": _FILES_FOLDER, "readOnly": True}
    container["volumeMounts"] = [*container.get("volumeMounts", []), mounted]


def _needs_ssh(job: Job) -> bool:
    """Whether a launcher starts the processes of other replicas."""
    return any(not job.framework.role(replica.group).runs_command for replica in job.replicas)


def _place(pod: Manifest, main: Manifest) -> Place | None:
    labels = pod["metadata"].get("labels", {})
    if FIRST_RANK not in labels or _COMPLETION_INDEX not in labels:
        return None
    rank = int(labels[FIRST_RANK]) + int(labels[_COMPLETION_INDEX])
    for group, count in groups_of(main).items():
        if rank < count:
            return group, rank
        rank -= count
    return None


def _name_limit(job: Job) -> int:
    longest = max(len(f"{block.job_name('')}-{len(block.replicas) - 1}") for block in blocks(job))
    return _LABEL_LENGTH - longest - _RANDOM_LENGTH


def _suspend(whether: bool) -> Manifest:
    return {"spec": {"suspend": whether}}


def native(make_keys: native_ssh.MakeKeys) -> Kind:
    """The kind, with its one source of chance.

    :param make_keys: makes the ssh key pair of a job whose launcher starts processes on other replicas.
    """
    return Kind(
        key="native",
        resource=SERVICES,
        frameworks=frozenset(MODULES),
        render=partial(_render, make_keys),
        read=read,
        groups=groups_of,
        place=_place,
        pod_label=JOB,
        name_limit=_name_limit,
        suspend=_suspend,
        check=check,
        children=(JOBS,),
        suspend_children=True,
    )


NATIVE = native(native_ssh.new_key_pair)
