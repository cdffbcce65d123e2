"""Finds the JobSet and the Job that the pods of a replica belong to.

A controller re-creates a deleted JobSet or Job, but does not count that as a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.pod_end import created_at

#: The labels with the attempt of the JobSet, and of its Job, that a pod belongs to.
_ATTEMPTS = ("jobset.sigs.k8s.io/restart-attempt", "jobset.sigs.k8s.io/job-restart-attempt")
_JOB_SET = "jobset.sigs.k8s.io/jobset-"
_JOB = "batch.kubernetes.io/"


def attempt_of(pod: Manifest) -> int | None:
    """How many times the JobSet had restarted a pod's replica; None for a pod outside a JobSet.

    :param pod: the pod.
    """
    labels = _labels(pod)
    attempts = [int(labels[label]) for label in _ATTEMPTS if label in labels]
    return sum(attempts) if attempts else None


def in_order(pods: Sequence[tuple[Manifest, bool]]) -> list[tuple[Manifest, bool]]:
    """The pods of a replica, the oldest first.

    :param pods: each with whether it no longer exists.
    """
    if len(pods) < 2:
        return list(pods)
    began: dict[str | None, datetime] = {}
    for pod, _ in pods:
        uid = job_set_of(pod)
        began[uid] = min(began.get(uid, created_at(pod)), created_at(pod))
    # A re-created JobSet counts from 0.
    return sorted(
        pods, key=lambda each: (began[job_set_of(each[0])], attempt_of(each[0]) or 0, created_at(each[0]), not each[1])
    )


def earlier_attempts(pods: Sequence[Manifest]) -> Counter[str | None]:
    """How many times JobSets that no longer exist had restarted a replica: UID of the JobSet -> number of restarts.

    :param pods: of the replica, the oldest first.
    """
    attempts = {job_set_of(pod): attempt_of(pod) or 0 for pod in pods}
    return Counter({uid: count for uid, count in attempts.items() if uid != job_set_of(pods[-1])})


@dataclass(frozen=True)
class Remade:
    """An object that was deleted and re-created.

    :param uid: of the deleted object.
    :param what: its kind and its name.
    """

    uid: str | None
    what: str

    @property
    def text(self) -> str:
        """The message for users."""
        return f"{self.what} was deleted, and its controller has created it again"


def remade_between(pod: Manifest, later: Manifest) -> Remade | None:
    """The object that was deleted and re-created between two pods of a replica; None where there is none.

    :param pod: the earlier pod.
    :param later: the next pod.
    """
    if job_set_of(pod) != job_set_of(later):
        return Remade(job_set_of(pod), f"JobSet {_labels(pod).get(f'{_JOB_SET}name')}")
    if _job(pod) != _job(later) and attempt_of(pod) == attempt_of(later):
        return Remade(_job(pod), f"Job {_labels(pod).get(f'{_JOB}job-name')}")
    return None


def job_set_of(pod: Manifest) -> str | None:
    """The UID of the JobSet that a pod belongs to; None for a pod outside a JobSet.

    :param pod: the pod.
    """
    uid: str | None = _labels(pod).get(f"{_JOB_SET}uid")
    return uid


def _labels(pod: Manifest) -> Manifest:
    return pod["metadata"].get("labels") or {}


def _job(pod: Manifest) -> str | None:
    uid: str | None = _labels(pod).get(f"{_JOB}controller-uid")
    return uid
