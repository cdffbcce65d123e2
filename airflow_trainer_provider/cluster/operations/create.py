"""Creates the objects of one job, each of which belongs to that job and to no other.

Objects of an earlier job with the same name may still exist, terminating, until the garbage collector has deleted them.
An object that exists therefore counts only if it carries this submission's mark, or is owned by this job's main object.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_trainer_provider.cluster.answers import is_port_taken, is_too_large
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations.end import withdraw
from airflow_trainer_provider.cluster.operations.order import Order
from airflow_trainer_provider.cluster.operations.refusal import refusal
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import annotation, is_unowned_part, owner_of, owner_reference
from airflow_trainer_provider.errors import ApiError, SubmitError
from airflow_trainer_provider.kinds.base import Facts, Manifest, Rendered, Resource
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.objects.tools import with_ports
from airflow_trainer_provider.kinds.objects.volumes.claims import unusable
from airflow_trainer_provider.kinds.registry import resource_of

log = logging.getLogger(__name__)

#: Seconds between attempts to create an object of which it is not known whether it exists.
_DOUBT_SECONDS = 1
#: Seconds for which the cluster may fail to answer before the submit fails.
_DOUBT_BUDGET = 300
#: Seconds that an admission webhook may take to see the objects that were created before the main object. Its
#: informer's backoff after a long outage of the API server is over a minute.
_UNSEEN_SECONDS = 120
#: Seconds that the garbage collector may take to free the node port of an ended job's tool.
_PORT_SECONDS = 30


class NameTaken(Exception):
    """An object of another job has the name that an object of this job needs.

    :param found: that object.
    """

    def __init__(self, found: Manifest) -> None:
        super().__init__(found["metadata"]["name"])
        self.found = found


@dataclass(frozen=True)
class Begun:
    """A job whose main object exists, and owns the parts that were created before it.

    :param job: the job.
    :param after: the parts that are still to be created.
    """

    job: JobObject
    after: Sequence[Manifest]


class Creator:
    """Creates the objects of the jobs that one order asks for.

    :param cluster: where to create them.
    :param namespace: in which namespace.
    :param order: what to run.
    """

    def __init__(self, cluster: Cluster, namespace: str, order: Order) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._namespace = namespace
        self._order = order
        self._kind = order.kind

    async def create(self, name: str) -> JobObject:
        """Create the whole job.

        :param name: of the job.
        :raises NameTaken: an object of another job has the name of one of this job's; nothing of this attempt is left.
        :raises SubmitError: the cluster did not take an object; nothing of this attempt is left, unless a later try has
            adopted the job.
        """
        return await self.finish(await self.begin(name))

    async def begin(self, name: str) -> Begun:
        """Create the main object, and before it the parts that it needs.

        :param name: of the job.
        :raises NameTaken: an object of another job has this name; nothing of this attempt is left.
        :raises SubmitError: the cluster did not take an object; nothing of this attempt is left.
        """
        rendered = await self._render(name)
        for claim in rendered.kept:
            await self._keep(claim)
        mark = uuid.uuid4().hex
        before = [self._marked(part, mark) for part in rendered.before]
        main = self._marked(rendered.main, mark)
        await self._sweep(before)
        made: list[Manifest] = []
        created = None
        try:
            for part in before:
                made.append(await self._create(part, lambda found: annotation(found, labels.SUBMISSION) == mark))
            created = await self._create(main, lambda found: annotation(found, labels.SUBMISSION) == mark, made)
            await self._own(created, made)
        except (NameTaken, SubmitError):
            if created is None or await withdraw(self._cluster, JobObject(self._kind, created)):
                for part in reversed(made):
                    await self._delete(part)
            raise
        return Begun(JobObject(self._kind, created), rendered.after)

    async def finish(self, begun: Begun) -> JobObject:
        """Create the parts that come after the main object.

        :raises NameTaken: an object of another job has the name of a part; nothing of this attempt is left.
        :raises SubmitError: the cluster did not take a part; nothing of this attempt is left, unless a later try has
            adopted the job.
        """
        try:
            return await self._add(begun.job, begun.after)
        except (NameTaken, SubmitError):
            await withdraw(self._cluster, begun.job)
            raise

    async def complete(self, job: JobObject) -> JobObject:
        """Create the missing objects of a job whose submit was interrupted.

        :raises NameTaken: an object of another job has the name of a missing one.
        :raises SubmitError: the job is being deleted.
        """
        if job.annotation(labels.COMPLETE) is not None:
            return job
        rendered = await self._render(job.name)
        mark, uid = job.annotation(labels.SUBMISSION), job.uid

        def is_own(found: Manifest) -> bool:
            return uid in _owners(found) or (not _owners(found) and annotation(found, labels.SUBMISSION) == mark)

        await self._own(job.main, [await self._create(self._marked(part, mark), is_own) for part in rendered.before])
        return await self._add(job, rendered.after)

    async def _keep(self, claim: Manifest) -> None:
        """Create a claim that outlives the job, or find the one that an earlier job has left.

        :raises SubmitError: a claim of this name cannot be used.
        """
        seen: list[Manifest] = []

        def is_usable(found: Manifest) -> bool:
            seen.append(found)
            return unusable(found, claim) is None

        try:
            await self._create(claim, is_usable)
        except NameTaken as error:
            found = seen[-1]
            message = (
                f"PersistentVolumeClaim {claim['metadata']['name']} exists in namespace {self._namespace}, and "
                f"{unusable(found, claim)}."
            )
            raise SubmitError(message, retryable="deletionTimestamp" in found["metadata"]) from error

    def deleted(self, name: str) -> SubmitError:
        """The error of a submit whose job another client has ended.

        :param name: of the job.
        """
        try_number = self._order.identity.try_number
        return SubmitError(
            f"Job {name} was deleted while it was submitted: either a later try of the task has a "
            f"job, and try {try_number} is out of date, or another client deleted it."
        )

    async def _own(self, main: Manifest, before: Sequence[Manifest]) -> None:
        """Make the main object the owner of the parts that were created before it."""
        try:
            for part in before:
                if main["metadata"]["uid"] not in _owners(part):
                    await self._patch(part, {"ownerReferences": [owner_reference(main)]})
        except ApiError as error:
            raise self._refusal(main["metadata"]["name"], error) from error

    async def _add(self, job: JobObject, after: Sequence[Manifest]) -> JobObject:
        """Create the parts that come after the main object, which owns them, and note that all exist."""
        if job.annotation(labels.COMPLETE) is not None:
            return job
        uid, owner = job.uid, owner_reference(job.main)
        try:
            created = []
            for part in after:
                owned = copy.deepcopy(part)
                owned["metadata"]["ownerReferences"] = [owner]
                created.append(await self._create(owned, lambda found: uid in _owners(found)))
            notes = {labels.COMPLETE: "true", **with_ports(job.main, created)}
            return job.at(await self._patch(job.main, {"annotations": notes}))
        except ApiError as error:
            raise self._refusal(job.name, error) from error

    def _refusal(self, name: str, error: ApiError) -> SubmitError:
        if error.is_not_found or error.is_conflict:
            return self.deleted(name)
        return refusal(error, self._kind.resource, self._namespace)

    async def _create(
        self, manifest: Manifest, is_own: Callable[[Manifest], bool], needed: Sequence[Manifest] = ()
    ) -> Manifest:
        """Create an object, or find that an earlier attempt has created it.

        :param is_own: whether an object of this name is the one that an earlier attempt created.
        :param needed: the objects that have to exist before it.
        """
        resource, begun = resource_of(manifest), time.monotonic()
        while True:
            try:
                return await self._client.create(resource, self._namespace, manifest)
            except ApiError as error:
                existing = await self._existing(manifest, is_own, error)
                if existing is not None:
                    return existing
                if self._is_unseen(error) and not await self._are_there(needed):
                    raise self.deleted(manifest["metadata"]["name"]) from error
                if not _exists(error) and not self._may_repeat(error, time.monotonic() - begun):
                    raise refusal(error, resource, self._namespace) from error
            await asyncio.sleep(_DOUBT_SECONDS)

    async def _existing(
        self, manifest: Manifest, is_own: Callable[[Manifest], bool], error: ApiError
    ) -> Manifest | None:
        """The object that an earlier attempt created; None where there is none, or it is gone meanwhile.

        Params as for `_create`.

        :param error: of the request to create it. The object is only looked for where the error says that it exists, or
            that its port is taken.
        :raises NameTaken: the object is not the one that an earlier attempt created, or is being deleted.
        """
        # For a Service that already exists, the API server reports that its port is taken, and not that it exists.
        if not _exists(error) and not is_port_taken(error):
            return None
        existing = await self._get(manifest)
        if existing is None:
            return None
        if is_own(existing) and "deletionTimestamp" not in existing["metadata"]:
            return existing
        raise NameTaken(existing) from error

    def _may_repeat(self, error: ApiError, waited: float) -> bool:
        if self._is_unseen(error):
            return waited < _UNSEEN_SECONDS
        if is_port_taken(error):
            return waited < _PORT_SECONDS
        # It is not known whether the object exists. The next attempt recognizes it by its mark.
        in_doubt = (error.status is None or error.status >= 500) and not is_too_large(error)
        return in_doubt and waited < _DOUBT_BUDGET

    def _is_unseen(self, error: ApiError) -> bool:
        """Whether an admission webhook has not yet seen the objects that have to exist before this one."""
        unseen = self._kind.creation.unseen
        return unseen is not None and unseen in str(error)

    async def _are_there(self, created: Sequence[Manifest]) -> bool:
        """Whether objects that were created still exist."""
        for each in created:
            found = await self._get(each)
            if found is None or found["metadata"]["uid"] != each["metadata"]["uid"]:
                return False
        return True

    async def _get(self, manifest: Manifest) -> Manifest | None:
        resource = resource_of(manifest)
        try:
            return await self._client.get_or_none(resource, self._namespace, manifest["metadata"]["name"])
        except ApiError as error:
            raise refusal(error, resource, self._namespace) from error

    async def _patch(self, manifest: Manifest, metadata: Manifest) -> Manifest:
        """Change the metadata of this very object, and of no other with its name."""
        patch = {"metadata": {"uid": manifest["metadata"]["uid"], **metadata}}
        return await self._client.patch(resource_of(manifest), self._namespace, manifest["metadata"]["name"], patch)

    async def _delete(self, manifest: Manifest) -> None:
        name, uid = manifest["metadata"]["name"], manifest["metadata"]["uid"]
        await self._client.delete(resource_of(manifest), self._namespace, name, uid=uid)

    async def _sweep(self, before: Sequence[Manifest]) -> None:
        """Delete parts of an earlier try that ended before it created their main object."""
        if self._order.identity.try_number == 1:
            return
        for resource in {resource_of(part) for part in before}:
            try:
                await self._sweep_kind(resource)
            except ApiError as error:
                # A leftover runtime costs nothing. The task needs its job more than a clean namespace.
                log.warning("Parts of jobs that an earlier try left were not deleted: %s", error)

    async def _sweep_kind(self, resource: Resource) -> None:
        identity = self._order.identity
        selector = f"{labels.OURS},{labels.TASK}={identity.key}"
        for found in (await self._client.list(resource, self._namespace, label_selector=selector)).items:
            if is_unowned_part(found) and 0 < owner_of(found) < identity.try_number:
                await self._delete(found)

    def _marked(self, manifest: Manifest, mark: str | None) -> Manifest:
        """The object with this submission's mark, by which later attempts recognize it."""
        marked = copy.deepcopy(manifest)
        annotations = marked["metadata"].setdefault("annotations", {})
        annotations.setdefault(labels.OWNER, str(self._order.identity.try_number))
        if mark is not None:
            annotations[labels.SUBMISSION] = mark
        if self._order.identity.deployment is not None:
            annotations[labels.DEPLOYMENT] = self._order.identity.deployment
        return marked

    async def _render(self, name: str) -> Rendered:
        rendered = self._order.render(name, await self._facts())
        if not rendered.before and not rendered.after:
            rendered.main["metadata"]["annotations"][labels.COMPLETE] = "true"
        return rendered

    async def _facts(self) -> Facts:
        schema = await self._cluster.schema(self._kind.resource) if self._kind.creation.reads_schema else None
        runtime = None
        if self._order.runtime:
            try:
                runtime = await self._client.get_path(self._order.runtime)
            except ApiError as error:
                raise refusal(error, self._kind.resource, self._namespace) from error
        return Facts(schema=schema, runtime=runtime)


def _exists(error: ApiError) -> bool:
    """Whether an object was not created because another one has its name."""
    return error.is_conflict and error.reason == "AlreadyExists"


def _owners(manifest: Manifest) -> list[str]:
    """The uids of an object's owners."""
    return [reference["uid"] for reference in manifest["metadata"].get("ownerReferences") or ()]
