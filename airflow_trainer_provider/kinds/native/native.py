"""Plain Kubernetes without an operator: Indexed Jobs that a headless Service owns.

The Service is the main object of the job, and owns all other objects. It gives each Pod a DNS name that is known in
advance, so the variables of the rendezvous can be written into the templates. A second Service gives rank 0 a name
without a domain.

The Pods of an Indexed Job share a template, in which only the completion index differs: Kubernetes replaces
``$(TRAINER_INDEX)`` with it. Kubernetes does no arithmetic: a worker's rank, which is its index plus one for the
master, cannot be written this way, and the image need not have a shell to compute it. So replicas share a Job where
their settings are equal and the completion index is their index in the group, or their rank, whichever their framework
asks for:

- TensorFlow's roles and JAX's workers: one Job for each group;
- PyTorch and XGBoost: one Job for master and workers together, which also counts as one job for Kueue, and in which a
  failure ends all replicas at once;
- a replica with its own settings, like Paddle's rank 0, and the replicas whose rank then no longer matches a completion
  index: one Job each.

Each Job has a label with the rank of its first Pod. The label identifies the replicas, whichever of them share a Job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from airflow_trainer_provider.frameworks import MODULES
from airflow_trainer_provider.job.plan.framework import Addresses
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.tools import tool_replica
from airflow_trainer_provider.kinds.base import JOBS, SERVICES, Facts, Manifest, Meta, Rendered, ReplicaRef
from airflow_trainer_provider.kinds.kind import Controller, Kind, Renderer, Suspension
from airflow_trainer_provider.kinds.native.blocks import INDEX_REFERENCE, Block, addresses_of, blocks, environment_of
from airflow_trainer_provider.kinds.native.check import check
from airflow_trainer_provider.kinds.native.read import FIRST_RANK, WAITED_FOR, groups_of, read
from airflow_trainer_provider.kinds.objects import files, ssh
from airflow_trainer_provider.kinds.objects.failure_policy import on_disruption, pod_failure_policy
from airflow_trainer_provider.kinds.objects.labels import GROUP, JOB, QUEUE
from airflow_trainer_provider.kinds.objects.pod import label_index, pod_template
from airflow_trainer_provider.kinds.objects.scheduling.gang import pod_group
from airflow_trainer_provider.kinds.size import check_copies
from airflow_trainer_provider.spec.misplaced import TRAINING_CONTAINER

_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_FAILURE_COUNT = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"
_LABEL_LENGTH = 63
#: "-abcde", which the Job's controller adds to a Pod's name.
_RANDOM_LENGTH = 6


def _render(make_keys: ssh.MakeKeys, job: JobPlan, meta: Meta, facts: Facts) -> Rendered:
    parts = blocks(job)
    check_copies(job, len(parts))
    addresses = addresses_of(meta.name, parts)
    contents = job.framework.files(job, addresses)
    leader = {JOB: meta.name, FIRST_RANK: "0", _COMPLETION_INDEX: "0"}
    # Without the labels by which a task finds its jobs: only the main object represents a job.
    after = [_service(addresses[job.leader.name].host, Meta(meta.name, {JOB: meta.name}), leader)]
    jobs = [_indexed_job(job, meta, block, addresses, bool(contents)) for block in parts]
    after += pod_group(job, meta, jobs)
    if contents:
        after.append(files.config_map(meta, contents))
    if job.is_launched:
        after.append(ssh.secret(meta, make_keys()))
    after += jobs
    main = _service(meta.name, ssh.with_key(meta) if job.is_launched else meta, {JOB: meta.name})
    return Rendered(main=main, after=tuple(after))


def _service(name: str, meta: Meta, selector: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": meta.main_labels, "annotations": dict(meta.annotations)},
        "spec": {
            "clusterIP": "None",
            # The replicas look each other up before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": selector,
        },
    }


def _indexed_job(job: JobPlan, meta: Meta, block: Block, addresses: Addresses, has_files: bool) -> Manifest:
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
        **_failure_policy(job, block.first.group, size),
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


def _restarts(job: JobPlan) -> int:
    """How often each replica may be started again."""
    return job.spec.run_policy.backoff_limit + (job.spec.elastic.max_restarts if job.spec.elastic else 0)


def _failure_policy(job: JobPlan, group: str, size: int) -> Manifest:
    restarts = _restarts(job)
    if not restarts:
        # The Job fails either way; with the rule, it reports that the Pod was evicted.
        return {"backoffLimit": 0, "podFailurePolicy": {"rules": [on_disruption("FailJob")]}}
    codes = job.spec.run_policy.exit_codes if job.framework.role(group).runs_command else None
    # A failure of one replica brings the others down, and all are restarted: each index counts its own failures.
    # backoffLimit, the limit for all of them, is never reached first; it is set because it defaults to 6 in a cluster
    # that does not know the limits per index.
    limits = {"backoffLimit": restarts * size, "backoffLimitPerIndex": restarts, "maxFailedIndexes": 0}
    return {**limits, **pod_failure_policy(codes, TRAINING_CONTAINER)}


def _template(job: JobPlan, meta: Meta, block: Block, addresses: Addresses, has_files: bool) -> Manifest:
    first, role = block.first, job.framework.role(block.first.group)
    shared = len(block.replicas) > 1
    env: dict[str, str | Mapping[str, Any]] = {
        "TRAINER_ATTEMPT": {"fieldRef": {"fieldPath": _FAILURE_COUNT}} if _restarts(job) else "0",
        **({"TRAINER_FILES": files.FOLDER} if has_files else {}),
        **(ssh.environment(job.framework) if job.is_launched else {}),
        **environment_of(job, block, addresses),
    }
    if not block.one_group:
        # The Pods are of different groups, and a Pod is given only its rank.
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
        files.mount(template, meta)
    if job.is_launched:
        ssh.mount(template, meta)
        if role.runs_command:
            hosts = [addresses[each.name] for each in job.replicas if not job.framework.role(each.group).runs_command]
            ssh.wait_for(template, hosts)
    return template


def _command(job: JobPlan, replica: Replica, addresses: Addresses) -> Sequence[str] | None:
    """The command that replaces the replica's own; None to keep its own."""
    if not job.framework.role(replica.group).runs_command:
        return ssh.SERVER
    # Without a command, the image's own command runs, which is unknown. With a launcher that trains, rank 0 runs in its
    # pod.
    if job.is_launched and replica.command and not job.framework.trains(replica.group):
        return ssh.launching(replica.argv, addresses[job.nodes[0].name])
    return None


def _replica_ref(pod: Manifest, main: Manifest) -> ReplicaRef | None:
    labels = pod["metadata"].get("labels", {})
    ranks = [str(labels.get(name, "")) for name in (FIRST_RANK, _COMPLETION_INDEX)]
    if not all(rank.isdecimal() for rank in ranks):
        return None
    rank = sum(map(int, ranks))
    for group, count in groups_of(main).items():
        if rank < count:
            return ReplicaRef(group, rank)
        rank -= count
    return None


def _name_limit(job: JobPlan) -> int:
    longest = max(len(f"{block.job_name('')}-{len(block.replicas) - 1}") for block in blocks(job))
    return _LABEL_LENGTH - longest - _RANDOM_LENGTH


def _labels_of_tools(job: JobPlan, name: str) -> Mapping[str, str]:
    replica = tool_replica(job)
    block = next(each for each in blocks(job) if replica in each.replicas)
    index = str(block.replicas.index(replica))
    return {JOB: name, FIRST_RANK: str(block.first.rank), _COMPLETION_INDEX: index}


def _suspend(whether: bool) -> Manifest:
    return {"spec": {"suspend": whether}}


def native(make_keys: ssh.MakeKeys) -> Kind:
    """The kind, with its only source of randomness.

    :param make_keys: makes the ssh key pair of a job whose launcher starts processes on other replicas.
    """
    return Kind(
        key="native",
        resource=SERVICES,
        frameworks=frozenset(MODULES),
        read=read,
        groups=groups_of,
        replica_ref=_replica_ref,
        container=lambda main, group: TRAINING_CONTAINER,
        pod_label=JOB,
        suspension=Suspension(_suspend, of_children=True),
        children=(JOBS,),
        controller=Controller(remakes_children=False),
        renderer=Renderer(
            check=check, render=partial(_render, make_keys), name_limit=_name_limit, tool_pod=_labels_of_tools
        ),
    )


NATIVE = native(ssh.new_key_pair)
