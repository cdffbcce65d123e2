"""Which of the pods with a job's label are the job's: an earlier job of the same name may have left some."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import is_being_deleted
from airflow_trainer_provider.kinds.base import Manifest


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
    # first pod may be created in the same second as the job: a pod that is not terminating is the job's.
    created_at = job.main["metadata"]["creationTimestamp"]
    return not is_being_deleted(pod) or bool(metadata["creationTimestamp"] >= created_at)
