"""What ``backend="auto"`` takes, and why."""

from __future__ import annotations

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.errors import BackendUnavailable, SpecError
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.kinds.manifest import ManifestJob
from airflow_trainer_provider.kinds.registry import BACKENDS, kind_for


async def choose(cluster: Cluster, job: Job | ManifestJob) -> tuple[str, str]:
    """The first backend that can carry a job, and whose kind the cluster has.

    :param cluster: which is asked what it has.
    :param job: what is to run.
    :return: the backend's name, and one line on why it is this one.
    :raises BackendUnavailable: there is none.
    """
    refused: list[str] = []
    for name in BACKENDS:
        why_not = await _why_not(cluster, name, job)
        if why_not is None:
            kind = kind_for(name, job).resource.kind
            return name, "; ".join([f"Backend auto: took {name}: {kind} is installed", *refused]) + "."
        refused.append(f"not {name}: {why_not}")
    raise BackendUnavailable("\n  ".join(["backend='auto' found no backend that can run this job:", *refused]))


async def _why_not(cluster: Cluster, name: str, job: Job | ManifestJob) -> str | None:
    try:
        ClusterBackend(name, None, "").check(job)
    except SpecError as error:
        return "; ".join(map(str, error.problems))
    resource = kind_for(name, job).resource
    if await cluster.serves(resource):
        return None
    # MPIJob has one CRD in two versions, of different controllers.
    return f"CRD {resource.crd} is not installed in version {resource.api_version.rpartition('/')[2]}"
