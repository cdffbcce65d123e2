"""Which JobSet and which Job the pods of a replica belong to.

A controller creates what is deleted of these again, and counts that nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.pod_end import created_at

#: Which start of the JobSet, and of its Job, a pod belongs to.
_ATTEMPTS = ("jobset.sigs.k8s.io/restart-attempt", "jobset.sigs.k8s.io/job-restart-attempt")
_JOB_SET = "jobset.sigs.k8s.io/jobset-"
_JOB = "batch.kubernetes.io/"


def attempt_of(pod: Manifest) -> int | None:
    """How often its JobSet had started a pod's replica again; None outside of one.

    :param pod: the pod.
    """
    labels = _labels(pod)
    attempts = [int(labels[label]) for label in _ATTEMPTS if label in labels]
    return sum(attempts) if attempts else None


def in_order(pods: Sequence[tuple[Manifest, bool]]) -> list[tuple[Manifest, bool]]:
    """The pods of a replica, the oldest first.

    :param pods: each with whether it is gone.
    """
    if len(pods) < 2:
        return list(pods)
    began: dict[str | None, datetime] = {}
    for pod, _ in pods:
        uid = _job_set(pod)
        began[uid] = min(began.get(uid, created_at(pod)), created_at(pod))
    # A JobSet that is created again counts from 0.
    return sorted(
        pods, key=lambda each: (began[_job_set(each[0])], attempt_of(each[0]) or 0, created_at(each[0]), not each[1])
    )


def earlier_attempts(pods: Sequence[Manifest]) -> int:
    """How often JobSets that are gone had started a replica again.

    :param pods: of the replica, the oldest first.
    """
    attempts = {_job_set(pod): attempt_of(pod) or 0 for pod in pods}
    return sum(attempts.values()) - (attempt_of(pods[-1]) or 0)


def remade_between(pod: Manifest, later: Manifest) -> str | None:
    """What was deleted, and created again, between two pods of a replica: a text for people; None where nothing was.

    :param pod: one.
    :param later: the next one.
    """
    if _job_set(pod) != _job_set(later):
        what = f"JobSet {_labels(pod).get(f'{_JOB_SET}name')}"
    elif _job(pod) != _job(later) and attempt_of(pod) == attempt_of(later):
        what = f"Job {_labels(pod).get(f'{_JOB}job-name')}"
    else:
        return None
    return f"{what} was deleted, and its controller has created it again"


def _labels(pod: Manifest) -> Manifest:
    return pod["metadata"].get("labels") or {}


def _job_set(pod: Manifest) -> str | None:
    uid: str | None = _labels(pod).get(f"{_JOB_SET}uid")
    return uid


def _job(pod: Manifest) -> str | None:
    uid: str | None = _labels(pod).get(f"{_JOB}controller-uid")
    return uid
