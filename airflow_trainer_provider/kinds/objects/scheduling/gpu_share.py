"""Shares of a GPU: annotations of the pods, which two schedulers read. Kubernetes has no resource for shares.

https://github.com/NVIDIA/KAI-Scheduler/tree/main/docs/gpu-sharing

The annotations apply to the pod's first container, which is the training's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.scheduling.placement import scheduler_of
from airflow_trainer_provider.spec import Resources
from airflow_trainer_provider.spec.compute import GpuShare, parse_quantity
from airflow_trainer_provider.spec.values.devices import NVIDIA

#: The schedulers that share GPUs by these annotations.
SCHEDULERS = ("kai-scheduler", "runai-scheduler")
_FRACTION, _MEMORY = "gpu-fraction", "gpu-memory"
_MIB = 2**20


def lay_share(metadata: Manifest, resources: Resources | None) -> None:
    """Set a replica's share of a GPU in the annotations of its pods, replacing the template's share; whole GPUs replace
    that share as well.

    :param metadata: of the pods' template.
    :param resources: of the replica.
    """
    if resources is None or not (resources.share or NVIDIA in resources.devices):
        return
    given = metadata.get("annotations") or {}
    others = {name: each for name, each in given.items() if name not in (_FRACTION, _MEMORY)}
    metadata["annotations"] = {**others, **_amount(resources.share)}
    if not metadata["annotations"]:
        del metadata["annotations"]


def _amount(share: GpuShare | None) -> Mapping[str, str]:
    if share is None:
        return {}
    if share.memory:
        return {_MEMORY: str(int(parse_quantity(share.memory)) // _MIB)}
    return {_FRACTION: str(share.fraction)}


def check_shares(job: JobPlan) -> None:
    """Refuse a share of a GPU where no scheduler reads it, and GPUs that the annotations of the pods contradict.

    :param job: the job.
    :raises SpecError: naming the field and the way out.
    """
    problems = [problem for replica in job.replicas for problem in _problems(job, replica)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))


def _problems(job: JobPlan, replica: Replica) -> Iterator[Problem]:
    resources = replica.resources or Resources()
    share, whole = resources.share, resources.devices.get(NVIDIA)
    if share is None and whole is None:
        return
    field = f"{job.source(replica, 'resources')[0]}.gpu"
    shown = str(share.fraction or share.memory if share else whole)
    scheduler = scheduler_of(job, replica.scheduling)
    if share and scheduler not in SCHEDULERS:
        allowed = f"whole GPUs, as {scheduler or 'the default scheduler'} shares none"
        fix = (
            f"Set scheduling.scheduler_name to one that does ({', '.join(SCHEDULERS)}) where the cluster has it, or "
            'write a whole number, or a slice of a GPU that the nodes count, e.g. {"nvidia.com/mig-1g.5gb": 1}.'
        )
        yield Problem(field, shown, allowed, fix)
    annotations = replica.pod.annotations if replica.pod else {}
    for name in (_FRACTION, _MEMORY):
        if name in annotations:
            yield Problem(
                field, shown, f"no value beside the annotation {name} in pod.annotations", "Drop one of them."
            )
