"""Starts a task's job on a cluster, or adopts the one that the task already has. A task never has two jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timezone

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.create import Creator, NameTaken
from airflow_trainer_provider.cluster.operations.end import end, finish, wait_until_ended, withdraw
from airflow_trainer_provider.cluster.operations.order import Order
from airflow_trainer_provider.cluster.operations.refusal import refusal
from airflow_trainer_provider.cluster.operations.suspension import is_suspended, resume
from airflow_trainer_provider.cluster.operations.task_jobs import (
    ensure_current,
    is_later,
    jobs_of,
    latest_owner,
    wait_for_pods,
)
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import (
    annotated,
    identity_of,
    is_being_deleted,
    is_being_ended,
    is_cancelled,
    is_suspended_on_kill,
    is_unowned_part,
    owner_of,
)
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.errors import ApiError, SubmitError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.kinds.status.pod_end import parse_time

#: How many names are tried for a job. A task that is run by hand again has the same try number, and the same names.
_MOST_NAMES = 20
#: Seconds that another submit of the same try may take from a job's first part to its main object, and seconds between
#: two requests for it.
_UNDER_WAY_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_SUPERSEDED = "a later try of the task has a job"
#: An earlier job, and why it was adopted.
_Adopted = tuple[JobObject, str]


class Submitter:
    """Submits one task's job.

    :param cluster: where to run it.
    :param namespace: in which namespace.
    :param order: what to run.
    :param start: which of the try's jobs it is, from 1; the jobs before it have failed.
    """

    def __init__(self, cluster: Cluster, namespace: str, order: Order, start: int = 1) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._namespace = namespace
        self._order = order
        self._kind = order.kind
        self._identity = order.identity
        self._creator = Creator(cluster, namespace, order)
        self._start = start

    async def submit(self) -> tuple[JobObject, str | None]:
        """Start the job, or adopt an earlier one.

        :return: the job, and why an earlier one was adopted, if one was.
        :raises SubmitError: the cluster refused the job, a later try has a job, or an earlier job does not end.
        """
        # A later try may find an earlier job of any kind. A first try can only find a job of the same order.
        kinds: Sequence[Kind] = (self._kind,)
        if self._identity.try_number > 1:
            kinds = await self._cluster.served(KINDS.values())
        elif self._start == 1 and (job := await self._start_first()):
            return job, None
        adopted = await self._adopt_one(kinds)
        if adopted is None and await wait_for_pods(self._cluster, kinds, self._namespace, self._identity):
            adopted = await self._adopt_one(kinds)
        if adopted:
            return adopted
        job, why = await self._create()
        ensure_current(job, self._identity)
        await self._look_again(job)
        return job, why

    async def _adopt_one(self, kinds: Sequence[Kind]) -> _Adopted | None:
        """Adopt one of the task's jobs; None where all have ended, or there is none.

        :param kinds: that the jobs may have.
        """
        for earlier in await jobs_of(self._cluster, kinds, self._namespace, self._identity):
            if adopted := await self._adopt(earlier):
                return adopted
        return None

    async def _start_first(self) -> JobObject | None:
        """Start the job of a first try whose task has no other job, and check again once its main object exists:
        another submit may start a job at the same moment.

        Parts that come after the main object, such as the Jobs of `native`, are created after the second check: where
        the task already has a job, none of them is ever created.

        :return: None where the task has another job: a main object that was created is deleted again.
        """
        if not all(map(self._is_done_with, await self._jobs_of_kind())):
            return None
        try:
            begun = await self._creator.begin(self._order.name_of(self._start))
            own, others = await self._look(begun.job)
            if all(map(self._is_done_with, others)):
                if begun.after and (own is None or is_being_ended(own.main)):
                    # Parts whose owner is gone could train until the garbage collector deletes them.
                    raise self._creator.deleted(begun.job.name)
                job = await self._creator.finish(begun)
                ensure_current(job, self._identity)
                return job
        except NameTaken:
            return None
        # A later try may have adopted the job in between, and then keeps it.
        if await withdraw(self._cluster, begun.job):
            await wait_until_ended(self._cluster, begun.job)
        return None

    async def _adopt(self, job: JobObject) -> _Adopted | None:
        """Adopt an earlier job, or end it.

        :return: the job, and why it was adopted; None where it was not, and has ended.
        """
        ensure_current(job, self._identity)
        earlier = identity_of(job.main) or self._identity
        is_wanted = self._is_wanted(job, earlier)
        same = is_wanted and self._is_of_order(job)
        snapshot = await Snapshot.read(self._cluster, job)
        status = snapshot.status()
        if same and _has_result(job, status):
            why = f"it succeeded in try {earlier.try_number}, and its result has not been collected"
            return await self._hand_over(job, {}, why)
        if status.phase in (JobPhase.SUCCEEDED, JobPhase.FAILED) and not is_being_deleted(job.main):
            await self._finish(job, succeeded=status.phase is JobPhase.SUCCEEDED)
            return None
        if same and _can_resume(job):
            return await self._resume(snapshot, earlier)
        if same and not self._identity.was_cleared_since(earlier) and not is_being_ended(job.main):
            return await self._hand_over(job, {}, _still_runs(earlier.try_number))
        return await self._end(job, self._identity.why_ended(earlier), resumable=is_wanted)

    def _is_wanted(self, job: JobObject, earlier: Identity) -> bool:
        """Whether this try may use an earlier job, or its result, provided that the job is of the same spec."""
        # A released job outlives its task, as the task asked for. A user who clears that task wants a new training.
        is_released = job.annotation(labels.RELEASED) is not None
        return self._identity.is_same_run(earlier) and not (is_released and self._identity.was_cleared_since(earlier))

    def _is_done_with(self, job: JobObject) -> bool:
        """Whether an earlier job needs no action before a first try has its own."""
        if job.annotation(labels.COLLECTED) is not None or is_being_deleted(job.main):
            return True
        # A cancelled job of a deleted run may be suspended, and no try of that run resumes it: it has to be ended.
        return is_cancelled(job.main) and self._identity.is_same_run(identity_of(job.main) or self._identity)

    def _is_of_order(self, job: JobObject) -> bool:
        """Whether the job runs what this try is to run."""
        return job.kind is self._kind and job.annotation(labels.DIGEST) == self._order.digest

    async def _finish(self, job: JobObject, *, succeeded: bool) -> None:
        """Apply the ``on_finish_action`` of an ended job that is not adopted."""
        await finish(self._cluster, job, succeeded=succeeded)
        if succeeded and job.annotation(labels.COLLECTED) is None:
            await self._give_up(job)
        await wait_until_ended(self._cluster, job)

    async def _give_up(self, job: JobObject) -> None:
        """Annotate a kept job so that no later try collects its result either."""
        patch = {"metadata": {"uid": job.uid, "annotations": {labels.COLLECTED: "true"}}}
        try:
            await self._client.patch(job.resource, self._namespace, job.name, patch)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def _resume(self, snapshot: Snapshot, earlier: Identity) -> _Adopted | None:
        """Adopt a job that is suspended when its task is killed; end it where its training is complete."""
        job = snapshot.job
        if snapshot.is_complete():
            return await self._end(job, "its training ended when it was suspended", resumable=False)
        if is_cancelled(job.main):
            return await self._hand_over(job, {labels.CANCELLED: None}, "it was suspended, and resumes")
        return await self._hand_over(job, {}, _still_runs(earlier.try_number))

    async def _adopt_fresh(self, job: JobObject) -> _Adopted | None:
        """Adopt a job that has changed meanwhile, if it still exists."""
        fresh = await self._read(job.kind, job.name)
        return None if fresh is None else await self._adopt(fresh)

    async def _end(self, job: JobObject, reason: str, *, resumable: bool = True) -> _Adopted | None:
        """End an earlier job that cannot be adopted.

        :param reason: why it cannot be adopted.
        :param resumable: whether it may be suspended.
        """
        if not await end(self._cluster, job, reason, latest_owner(job, self._identity), resumable=resumable):
            # A later try has just adopted it.
            return await self._adopt_fresh(job)
        await wait_until_ended(self._cluster, job)
        return None

    async def _hand_over(self, job: JobObject, values: dict[str, str | None], why: str) -> _Adopted | None:
        """Make this try the job's owner, unless another client was quicker."""
        patch = annotated(job.main, {labels.OWNER: str(self._identity.try_number), labels.RELEASED: None, **values})
        try:
            job = job.at(await self._client.patch(job.resource, self._namespace, job.name, patch))
        except ApiError as error:
            if error.is_not_found:
                return None
            if not error.is_conflict:
                raise refusal(error, job.resource, self._namespace) from error
            return await self._adopt_fresh(job)
        try:
            job = await self._creator.complete(job)
        except NameTaken:
            await end(self._cluster, job, "the names of its objects are taken by another job", resumable=False)
            await wait_until_ended(self._cluster, job)
            return None
        # The job may be marked as cancelled and not be suspended: the client that cancelled it was killed in between.
        if labels.CANCELLED in values and await is_suspended(self._cluster, job):
            await resume(self._cluster, job)
        return job, why

    async def _create(self) -> tuple[JobObject, str | None]:
        for number in range(self._start, self._start + _MOST_NAMES):
            name = self._order.name_of(number)
            try:
                return await self._creator.create(name), None
            except NameTaken as taken:
                existing = await self._take_existing(name, taken.found)
            if existing is not None:
                return existing, "this try has already started it"
        raise SubmitError(
            f"Namespace {self._namespace} has objects of {_MOST_NAMES} jobs called {self._order.name}; delete some."
        )

    async def _take_existing(self, name: str, found: Manifest) -> JobObject | None:
        """The job of this name, where this try itself has just created it.

        :param found: the object that has the name.
        """
        job = await self._read_under_way(name, found)
        if job is None or is_being_ended(job.main) or not self._is_of_order(job):
            return None
        if identity_of(job.main) != self._identity:
            return None
        if await self._has_ended(job):
            return None
        return await self._creator.complete(job)

    async def _read_under_way(self, name: str, found: Manifest) -> JobObject | None:
        """Read the job of this name. Where another submit of this try is about to create its main object, wait for
        that.

        Under another name there would be two jobs, of which one has to end. Params as for `_take_existing`.
        """
        deadline = time.monotonic() + self._seconds_under_way(name, found)
        job = await self._read(self._kind, name)
        while job is None and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            job = await self._read(self._kind, name)
        return job

    def _seconds_under_way(self, name: str, found: Manifest) -> float:
        """For how many seconds the main object may still be created; 0 where none is expected.

        Params as for `_take_existing`.
        """
        own = found["metadata"].get("labels") or {}
        is_of_try = own.get(labels.TASK) == self._identity.key and owner_of(found) == self._identity.try_number
        is_of_job = own.get(labels.JOB) == name and is_unowned_part(found) and not is_being_deleted(found)
        if not (is_of_try and is_of_job):
            return 0.0
        now = datetime.now(timezone.utc) + self._client.clock.ahead
        age = (now - parse_time(found["metadata"]["creationTimestamp"])).total_seconds()
        return _UNDER_WAY_SECONDS - max(age, 0.0)

    async def _read(self, kind: Kind, name: str) -> JobObject | None:
        try:
            main = await self._client.get_or_none(kind.resource, self._namespace, name)
        except ApiError as error:
            raise refusal(error, kind.resource, self._namespace) from error
        return None if main is None else JobObject(kind, main)

    async def _look_again(self, job: JobObject) -> None:
        """Check again for another job of the task: another try may have found none, and created its own at the same
        moment.
        """
        _, others = await self._look(job)
        for other in others:
            if is_being_ended(other.main) or await self._has_ended(other):
                continue
            last = latest_owner(other, self._identity)
            if is_later(other, self._identity) or not await end(self._cluster, other, _SUPERSEDED, last):
                await withdraw(self._cluster, job)
                raise SubmitError(
                    f"A later try of this task started job {other.name}, or adopted it, at the same moment; try "
                    f"{self._identity.try_number} is out of date and deleted its own."
                )
            await wait_until_ended(self._cluster, other)

    async def _has_ended(self, job: JobObject) -> bool:
        return (await Snapshot.read(self._cluster, job)).status().phase.ended

    async def _jobs_of_kind(self, *, not_older_than: str = "") -> list[JobObject]:
        """The task's jobs of this kind."""
        return await jobs_of(
            self._cluster, (self._kind,), self._namespace, self._identity, not_older_than=not_older_than
        )

    async def _look(self, job: JobObject) -> tuple[JobObject | None, list[JobObject]]:
        """Read this job as it is now, and the task's other jobs of this kind.

        Of two submits at the same moment, the one that creates its job later sees both jobs.

        :return: None for this job where it is gone.
        """
        found = await self._jobs_of_kind(not_older_than=job.main["metadata"]["resourceVersion"])
        own = next((each for each in found if each.uid == job.uid), None)
        return own, [other for other in found if other.uid != job.uid]


def _has_result(job: JobObject, status: JobStatus) -> bool:
    """Whether the job has succeeded, and its outcome has not reached XCom."""
    return status.phase is JobPhase.SUCCEEDED and job.annotation(labels.COLLECTED) is None


def _can_resume(job: JobObject) -> bool:
    """Whether the job can be resumed: it is suspended when its task is killed, and not being deleted."""
    return is_suspended_on_kill(job.main) and not is_being_deleted(job.main)


def _still_runs(try_number: int) -> str:
    return f"try {try_number} started it, and it still runs"
