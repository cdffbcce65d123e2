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
    # Without the labels by which a task finds its jobs: only the main object stands for one.
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
        # It fails either way; with the rule, the Job says that the Pod was evicted.
        return {"backoffLimit": 0, "podFailurePolicy": {"rules": [on_disruption("FailJob")]}}
    codes = job.spec.run_policy.exit_codes if job.framework.role(group).runs_command else None
    # A failure of one replica brings the others down, and all are started again: each counts its own. The limit of
    # them all is never reached first; it is written down because its default is 6 where the others are not known.
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
        # The group is not the same for all, and a Pod gets its rank only.
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
    """What takes the place of the replica's own command line; None where nothing does."""
    if not job.framework.role(replica.group).runs_command:
        return ssh.SERVER
    # Without a command the image's own is run, which is unknown. Rank 0 of a launcher that trains runs here.
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
    """The kind, with its one source of chance.

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
