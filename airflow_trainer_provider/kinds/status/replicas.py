"""The state of each replica of a job, from all pods that it has had."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile

from airflow_trainer_provider.job.diagnosis.causes import CREATING, DELETED, INIT, ON_THE_WAY
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.kinds.base import Manifest, ReplicaRef
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.status.containers import training_container_of
from airflow_trainer_provider.kinds.status.events import Warned
from airflow_trainer_provider.kinds.status.pod_status import PodState, Stage, read_pod
from airflow_trainer_provider.kinds.status.remade import (
    attempt_of,
    earlier_attempts,
    in_order,
    job_set_of,
    remade_between,
)

#: The time after a pod's creation in which a node's warnings about it are transient.
_PASSES_WITHIN = timedelta(seconds=5)
#: The message for a replica that has no pod, and that no controller starts.
_PART_GONE = "its Job was deleted; whether it had succeeded is not known"


@dataclass(frozen=True)
class ReplicaState:
    """A replica, from all pods that it has had.

    :param status: according to the newest pod.
    :param stage: whether its training waits to run, runs, or has ended; a replica that needs another pod to continue
        waits.
    :param newest: its newest pod; None where there was none yet.
    :param pod: the newest pod, if it still exists.
    :param started_at: when it first ran.
    :param last_end: how its previous run ended, where it was restarted.
    :param attempt: of the JobSet that the newest pod belongs to; None outside a JobSet.
    :param tried_since: when the first of its latest pods was created, none of which has run the training.
    :param refused_at: when the cluster last refused what its newest pod waits for, which its status names.
    :param disrupted_at: when the disruption of its newest pod began, if that was before its training ended.
    :param has_succeeded: whether all containers of its newest pod exited with 0, whatever has ended it.
    :param before: the pod before the newest.
    :param job_set: the uid of that JobSet.
    :param remade: restarts that the newest JobSet does not count: UID of a JobSet or Job that was deleted and
        re-created -> how many times the replica was restarted because of that, and by that JobSet before.
    """

    status: ReplicaStatus
    stage: Stage
    newest: PodState | None = None
    pod: PodState | None = None
    started_at: datetime | None = None
    last_end: ReplicaStatus | None = None
    attempt: int | None = None
    disrupted_at: datetime | None = None
    has_succeeded: bool = False
    before: PodState | None = None
    tried_since: datetime | None = None
    refused_at: datetime | None = None
    job_set: str | None = None
    remade: Counter[str | None] = field(default_factory=Counter)


def read_replicas(
    kind: Kind,
    main: Manifest,
    pods: Sequence[Manifest],
    gone: Sequence[Manifest],
    groups: Mapping[str, int],
    ranked: bool,
) -> list[ReplicaState]:
    """All replicas, in the order of their ranks, including those that have no pod yet.

    :param kind: of the main object.
    :param main: the main object.
    :param pods: the job's pods.
    :param gone: the last versions of pods that were deleted meanwhile.
    :param groups: how many replicas of each group, in the order of their ranks.
    :param ranked: whether each replica is one process, whose rank is the replica's.
    """
    found: dict[ReplicaRef, list[tuple[Manifest, bool]]] = {}
    for each, is_gone in ((gone, True), (pods, False)):
        for pod in each:
            ref = kind.replica_ref(pod, main)
            if ref is not None:
                found.setdefault(ref, []).append((pod, is_gone))
    replicas: list[ReplicaState] = []
    for group, count in groups.items():
        for index in range(count):
            rank = len(replicas) if ranked else None
            replicas.append(_replica(kind, main, found.get(ReplicaRef(group, index), []), (group, index, rank)))
    return replicas


def _replica(
    kind: Kind, main: Manifest, pods: list[tuple[Manifest, bool]], which: tuple[str, int, int | None]
) -> ReplicaState:
    without_pod = _without_pod(*which)
    if not pods:
        return without_pod
    ordered = in_order(pods)
    had = [pod for pod, _ in ordered]
    states = [
        read_pod(pod, without_pod.status, training_container_of(kind, main, pod), gone=is_gone)
        for pod, is_gone in ordered
    ]
    newest, there, attempt = states[-1], not ordered[-1][1], attempt_of(had[-1])
    ends, remade = _earlier_ends(had, states)
    earlier, failed = earlier_attempts(had), sum(state.status.failed for state in states[:-1])
    again = max(earlier.total() + (attempt or 0), failed) + remade.total()
    restarts = sum(state.status.restarts for state in states) + again
    return ReplicaState(
        status=newest.status.model_copy(update={"restarts": restarts}),
        stage=newest.stage if there or _is_complete(newest) else "waiting",
        newest=newest,
        pod=newest if there else None,
        started_at=_first_start(states),
        last_end=newest.last_end or next(reversed(ends), None),
        attempt=attempt,
        job_set=job_set_of(had[-1]),
        disrupted_at=newest.disrupted_at,
        has_succeeded=newest.has_succeeded,
        before=states[-2] if len(states) > 1 else None,
        tried_since=_tried_since(states),
        remade=earlier + remade,
    )


def _is_complete(state: PodState) -> bool:
    """Whether no controller restarts a replica: its exit code was 0, whatever ended it."""
    return state.status.exit_code == 0 and (state.disrupted_at is not None or not state.status.failed)


def _tried_since(states: Sequence[PodState]) -> datetime | None:
    tried = list(takewhile(lambda state: state.status.started_at is None, reversed(states)))
    # Pods that were deleted without a failure, e.g. by a suspension, do not count as tries.
    failed = [state.created_at for state in tried[1:] if (state.status.reason or "").startswith(INIT)]
    return min([tried[0].created_at, *failed]) if tried else None


def with_warnings(replicas: Sequence[ReplicaState], warnings: Mapping[str, Warned]) -> list[ReplicaState]:
    """The replicas, with their nodes' warnings about why they do not start.

    :param replicas: as they were read from their pods.
    :param warnings: uid of a pod -> the last warning about it.
    """
    return [_with_warning(replica, warnings.get(replica.pod.uid) if replica.pod else None) for replica in replicas]


def _with_warning(replica: ReplicaState, warned: Warned | None) -> ReplicaState:
    pod, status = replica.pod, replica.status
    if not warned or not warned.at or not pod or pod.is_prepared or status.reason not in ON_THE_WAY:
        return replica
    # Nodes also emit such warnings about new pods that are healthy, and that later wait for something else.
    if warned.at - pod.created_at < _PASSES_WITHIN:
        return replica
    if replica.stage != "waiting":
        return replica
    update = {"reason": warned.reason, "message": warned.message}
    return dataclasses.replace(replica, status=status.model_copy(update=update), refused_at=warned.at)


def with_pulls(replicas: Sequence[ReplicaState], pulls: Mapping[str, str]) -> list[ReplicaState]:
    """The replicas; those that are about to start name the image that their node pulls.

    :param replicas: as they were read from their pods.
    :param pulls: uid of a pod -> the kubelet's message on the image.
    """
    return [_with_pull(replica, pulls.get(replica.pod.uid) if replica.pod else None) for replica in replicas]


def _with_pull(replica: ReplicaState, pull: str | None) -> ReplicaState:
    status = replica.status
    if not pull or replica.stage != "waiting" or status.reason not in ON_THE_WAY:
        return replica
    # The event remains after the pull: an init container that runs by now says more.
    if status.message and status.reason != f"{INIT}{CREATING}":
        return replica
    message = ": ".join(filter(None, [status.message, pull]))
    return dataclasses.replace(replica, status=status.model_copy(update={"message": message}))


def without_part(replicas: Sequence[ReplicaState], names: Collection[str]) -> list[ReplicaState]:
    """The replicas, of which those that no controller starts any more have ended instead of waiting.

    :param replicas: as they were read from their pods.
    :param names: the names of the replicas whose part of the job no longer exists.
    """
    return [_gone_with_part(each) if each.status.name in names else each for each in replicas]


def _gone_with_part(replica: ReplicaState) -> ReplicaState:
    if replica.stage != "waiting":
        return replica
    status = replica.status
    if status.finished_at is None:
        status = status.model_copy(update={"reason": DELETED, "message": _PART_GONE})
    return dataclasses.replace(replica, stage="ended", status=status)


def _earlier_ends(
    pods: Sequence[Manifest], states: Sequence[PodState]
) -> tuple[list[ReplicaStatus], Counter[str | None]]:
    """How the replica's earlier pods ended, where it was restarted because of that.

    :return: the ends, and the restarts because of deleted objects: UID -> number of restarts.
    """
    ends, uids = [], Counter[str | None]()
    for pod, state, later in zip(pods, states, pods[1:], strict=False):
        remade = remade_between(pod, later)
        # Pods that were deleted without a failure, e.g. by a suspension, do not count as restarts.
        if state.status.failed:
            ends.append(state.status)
        elif remade and state.status.started_at:
            ends.append(state.status.model_copy(update={"reason": DELETED, "message": remade.text}))
            uids[remade.uid] += 1
    return ends, uids


@functools.lru_cache(maxsize=4096)
def _without_pod(group: str, index: int, rank: int | None) -> ReplicaState:
    """A replica that has had no pod. All jobs share one object, because thousands of replicas may wait in queues."""
    return ReplicaState(ReplicaStatus(group=group, index=index, rank=rank), "waiting")


def _first_start(states: Sequence[PodState]) -> datetime | None:
    runs = [run for state in states for run in (state.status, state.last_end) if run]
    return min((run.started_at for run in runs if run.started_at), default=None)
