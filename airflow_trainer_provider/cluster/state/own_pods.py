"""Which of the pods with a job's label are the job's: an earlier job of the same name may have left some."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import is_being_deleted
from airflow_trainer_provider.kinds.base import Manifest


def own_pods(job: JobObject, pods: Iterable[Manifest]) -> list[Manifest]:
    """The pods without those of an earlier job of the same name, which can take their grace period to go.

    :param job: the job.
    :param pods: those with its label.
    """
    return [pod for pod in pods if is_own(job, pod)]


def is_own(job: JobObject, pod: Manifest) -> bool:
    """Whether a pod with the job's label is the job's."""
    metadata, resource = pod["metadata"], job.resource
    owners = metadata.get("ownerReferences") or ()
    controller = next((each for each in owners if each.get("controller")), None)
    if controller and (controller["apiVersion"], controller["kind"]) == (resource.api_version, resource.kind):
        return bool(controller["uid"] == job.uid)
    # Of another controller only the pod's age counts. API servers' clocks differ, and a job's first pod is created in
    # its first second: a pod that stays is the job's.
    created_at = job.main["metadata"]["creationTimestamp"]
    return not is_being_deleted(pod) or bool(metadata["creationTimestamp"] >= created_at)
