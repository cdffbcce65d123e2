"""The objects of Kueue: queues, and the Workloads by which it decides when a job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_trainer_provider.kinds.base import Manifest, Resource
from airflow_trainer_provider.kinds.status.pod_end import parse_time

WORKLOADS = Resource("kueue.x-k8s.io/v1beta1", "Workload", "workloads")
LOCAL_QUEUES = Resource("kueue.x-k8s.io/v1beta1", "LocalQueue", "localqueues")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io/v1beta1", "ClusterQueue", "clusterqueues")
JOB_UID = "kueue.x-k8s.io/job-uid"


def workload_keys(workload: Manifest) -> Sequence[str]:
    """The keys by which a Workload is found: the uid of the object that it is for, and its queue."""
    uid = job_uid(workload)
    return () if uid is None else (uid, queue_key((workload.get("spec") or {}).get("queueName") or ""))


def queue_key(name: str) -> str:
    """The key by which the Workloads of a queue are found.

    :param name: of the LocalQueue.
    """
    return f"queue/{name}"


def job_uid(workload: Manifest) -> str | None:
    """The uid of the object that a Workload is for."""
    uid: str | None = (workload["metadata"].get("labels") or {}).get(JOB_UID)
    return uid


def priority_of(workload: Manifest) -> int:
    """The priority of a Workload: in a queue, a higher priority comes first."""
    return int((workload.get("spec") or {}).get("priority") or 0)


def queued_at(workload: Manifest) -> float:
    """When a Workload was created, in seconds since 1970."""
    return parse_time(workload["metadata"]["creationTimestamp"]).timestamp()


def reserved_at(workload: Manifest) -> float | None:
    """When the queue reserved quota for a Workload, which ends its wait, in seconds since 1970; None before that."""
    condition = _condition(workload, "QuotaReserved")
    if condition.get("status") != "True":
        return None
    return parse_time(condition["lastTransitionTime"]).timestamp()


def is_pending(workload: Manifest) -> bool:
    """Whether a Workload waits for its queue: it is not suspended, and no quota is reserved for it."""
    return is_active(workload) and _condition(workload, "QuotaReserved").get("status") != "True"


def is_active(workload: Manifest) -> bool:
    """Whether the queue may admit a Workload, or keep it admitted; it may not while the job is suspended by request."""
    return bool((workload.get("spec") or {}).get("active", True))


def pending_since(workload: Manifest) -> float:
    """Since when a Workload has been waiting, in seconds since 1970; after an eviction it waits again."""
    condition = _condition(workload, "QuotaReserved")
    if condition.get("status") != "False":
        return queued_at(workload)
    return parse_time(condition["lastTransitionTime"]).timestamp()


def why_pending(workload: Manifest) -> str:
    """Why the queue has reserved no quota for a Workload, in Kueue's words; empty where it has not said."""
    condition = _condition(workload, "QuotaReserved")
    return str(condition.get("message") or "") if condition.get("status") == "False" else ""


def _condition(workload: Manifest, kind: str) -> Mapping[str, Any]:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})
