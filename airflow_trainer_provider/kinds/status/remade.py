"""Which JobSet and which Job the pods of a replica belong to.

A controller creates what is deleted of these again, and counts that nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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
        uid = job_set_of(pod)
        began[uid] = min(began.get(uid, created_at(pod)), created_at(pod))
    # A JobSet that is created again counts from 0.
    return sorted(
        pods, key=lambda each: (began[job_set_of(each[0])], attempt_of(each[0]) or 0, created_at(each[0]), not each[1])
    )


def earlier_attempts(pods: Sequence[Manifest]) -> Counter[str | None]:
    """How often JobSets that are gone had started a replica again: uid of each -> how often.

    :param pods: of the replica, the oldest first.
    """
    attempts = {job_set_of(pod): attempt_of(pod) or 0 for pod in pods}
    return Counter({uid: count for uid, count in attempts.items() if uid != job_set_of(pods[-1])})


@dataclass(frozen=True)
class Remade:
    """What was deleted, and created again.

    :param uid: of what was deleted.
    :param what: its kind and its name.
    """

    uid: str | None
    what: str

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.what} was deleted, and its controller has created it again"


def remade_between(pod: Manifest, later: Manifest) -> Remade | None:
    """What was deleted, and created again, between two pods of a replica; None where nothing was.

    :param pod: one.
    :param later: the next one.
    """
    if job_set_of(pod) != job_set_of(later):
        return Remade(job_set_of(pod), f"JobSet {_labels(pod).get(f'{_JOB_SET}name')}")
    if _job(pod) != _job(later) and attempt_of(pod) == attempt_of(later):
        return Remade(_job(pod), f"Job {_labels(pod).get(f'{_JOB}job-name')}")
    return None


def job_set_of(pod: Manifest) -> str | None:
    """The uid of the JobSet that a pod belongs to; None outside of one.

    :param pod: the pod.
    """
    uid: str | None = _labels(pod).get(f"{_JOB_SET}uid")
    return uid


def _labels(pod: Manifest) -> Manifest:
    return pod["metadata"].get("labels") or {}


def _job(pod: Manifest) -> str | None:
    uid: str | None = _labels(pod).get(f"{_JOB}controller-uid")
    return uid
