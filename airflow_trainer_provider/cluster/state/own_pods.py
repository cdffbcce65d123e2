"""Which of the pods with a job's label are the job's: an earlier job of the same name may have left some."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import is_being_deleted
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.pod_end import parse_time

#: How much the clocks of API servers may differ.
_SKEW = timedelta(seconds=5)


def own_pods(job: JobObject, pods: Iterable[Manifest]) -> list[Manifest]:
    """The pods without those of an earlier job of the same name, which may remain until their grace period is over.

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
    # Where the controller is another object, only the pod's age counts. The clocks of API servers differ, and a job's
    # first pod may be created in the same second as the job.
    created_at, job_created_at = metadata["creationTimestamp"], job.main["metadata"]["creationTimestamp"]
    if created_at >= job_created_at:
        return True
    # The garbage collector may not have reached the pods of a job that was deleted.
    return not is_being_deleted(pod) and parse_time(created_at) >= parse_time(job_created_at) - _SKEW
