"""Starts a task's job on a cluster, or adopts the one that the task has already. Never two."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Iterable, Sequence

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.end import end, finish, until_gone
from airflow_trainer_provider.cluster.errors import refusal
from airflow_trainer_provider.cluster.objects import (
    annotated,
    annotation,
    identity_of,
    is_being_ended,
    owner_of,
)
from airflow_trainer_provider.cluster.order import Order
from airflow_trainer_provider.cluster.suspension import suspend
from airflow_trainer_provider.cluster.view import View
from airflow_trainer_provider.errors import ApiError, SubmitError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Facts, Kind, Manifest, Rendered
from airflow_trainer_provider.kinds.registry import KINDS, resource_of

_CONFLICT = 409
_NOT_FOUND = 404
#: How often one and the same try may have a job of its own: a task that is run by hand again has the same try.
_MOST_JOBS = 20
#: Between looks for an object of which it is not known whether it was created, in seconds.
_DOUBT_SECONDS = 1
#: How long an admission webhook may take to see what was created before the main object, in seconds.
_UNSEEN_SECONDS = 20
#: How long the cluster may fail to answer before the task fails, in seconds.
_DOUBT_BUDGET = 300


class Submitter:
    """Submits one task's job.

    :param cluster: where to.
    :param namespace: into which namespace.
    :param order: what to run.
    """

    def __init__(self, cluster: Cluster, namespace: str, order: Order) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._namespace = namespace
        self._order = order
        self._kind = order.kind
        self._identity = order.identity

    async def submit(self) -> tuple[Kind, Manifest, str | None]:
        """Start the job, or adopt an earlier one.

        :return: the kind and the main object of the job, and why an earlier job was adopted, if one was.
        :raises SubmitError: the cluster did not take the job, or a later try has one.
        """
        # A later try may find a job of another kind; before a first one, only a job of the very same order can be.
        kinds: Sequence[Kind] = (self._kind,)
        if self._identity.try_number > 1:
            kinds = await self._served_kinds()
        elif main := await self._start_unseen():
            return self._kind, main, None
        for kind, main in await jobs_of(self._cluster, kinds, self._namespace, self._identity):
            adopted = await self._adopt(kind, main)
            if adopted:
                return kind, *adopted
        main, adopted_message = await self._create()
        await self._look_again(main)
        return self._kind, main, adopted_message

    async def _start_unseen(self) -> Manifest | None:
        """Start a first try's job, and see only then whether the task has one already, which saves a question.

        :return: None where it has one: the new job is gone again.
        """
        rendered = await self._render(self._order.name)
        created = await self._create_named(rendered, take_existing=False)
        if created is None:
            return None
        main, _ = created
        if all(is_being_ended(other) for _, other in await self._others(main)):
            return main
        # Deleted, whatever its on_kill_action says: nobody has seen it.
        name, uid = main["metadata"]["name"], main["metadata"]["uid"]
        await self._client.delete(self._kind.resource, self._namespace, name, uid=uid)
        await until_gone(self._cluster, self._kind, main, self._order.grace)
        return None

    async def _served_kinds(self) -> list[Kind]:
        return [kind for kind in KINDS.values() if await self._cluster.serves(kind.resource)]

    async def _adopt(self, kind: Kind, main: Manifest) -> tuple[Manifest, str] | None:
        """The earlier job, and why it is the one to use; None where it is not, and has ended."""
        try_number, earlier = self._identity.try_number, identity_of(main).try_number
        name = main["metadata"]["name"]
        if owner_of(main) > try_number:
            raise SubmitError(
                f"Try {owner_of(main)} of this task already has job {name}; "
                f"try {try_number} is out of date and starts nothing."
            )
        same = kind is self._kind and annotation(main, labels.DIGEST) == self._order.digest
        view = await View.read(self._cluster, kind, main)
        status = view.status()
        if status.phase is JobPhase.SUCCEEDED and same and annotation(main, labels.COLLECTED) is None:
            why = f"it succeeded in try {earlier}, and nobody has taken its result"
            return await self._hand_over(kind, main, {}, why)
        if status.phase.ended and not is_being_ended(main):
            await finish(self._cluster, kind, main, succeeded=status.phase is JobPhase.SUCCEEDED)
            return None
        suspended = annotation(main, labels.CANCELLED) is not None and "deletionTimestamp" not in main["metadata"]
        if same and suspended and annotation(main, labels.ON_KILL) == "suspend":
            return await self._hand_over(kind, main, {labels.CANCELLED: None}, "it was suspended, and goes on")
        if same and not is_being_ended(main):
            return await self._hand_over(kind, main, {}, f"try {earlier} started it, and it still runs")
        await end(self._cluster, kind, main, "the task was tried again with other parameters")
        await until_gone(self._cluster, kind, main, self._order.grace)
        return None

    async def _hand_over(
        self, kind: Kind, main: Manifest, values: dict[str, str | None], why: str
    ) -> tuple[Manifest, str] | None:
        """Make this try the job's owner, unless somebody else was quicker."""
        patch = annotated(main, {labels.OWNER: str(self._identity.try_number), **values})
        try:
            main = await self._client.patch(kind.resource, self._namespace, main["metadata"]["name"], patch)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            if error.status != _CONFLICT:
                raise refusal(error, kind.resource, self._namespace) from error
            try:
                fresh = await self._client.get(kind.resource, self._namespace, main["metadata"]["name"])
            except ApiError as gone:
                if gone.status == _NOT_FOUND:
                    return None
                raise
            return await self._adopt(kind, fresh)
        if annotation(main, labels.COMPLETE) is None:
            main = await self._complete(main, await self._render(main["metadata"]["name"]))
        if labels.CANCELLED in values:
            await suspend(self._cluster, kind, main, False)
        return main, why

    async def _create(self) -> tuple[Manifest, str | None]:
        for suffix in ("", *(f"-{again}" for again in range(2, _MOST_JOBS))):
            rendered = await self._render(self._order.name + suffix)
            main = await self._create_named(rendered)
            if main is not None:
                return main
        raise SubmitError(
            f"Namespace {self._namespace} holds {_MOST_JOBS} jobs called {self._order.name}; delete some."
        )

    async def _create_named(
        self, rendered: Rendered, *, take_existing: bool = True
    ) -> tuple[Manifest, str | None] | None:
        """The job of this name; None where the name is taken by another.

        :param take_existing: whether a job of this name that is this try's own counts.
        """
        try:
            for manifest in rendered.before:
                await self._ensure(manifest)
            existing = await self._create_main(rendered.main)
        except SubmitError:
            await self._remove(rendered.before)
            raise
        if existing is None and not take_existing:
            return None
        if existing is None:
            existing = await self._client.get(self._kind.resource, self._namespace, rendered.main["metadata"]["name"])
            return await self._take_existing(existing, rendered)
        return await self._complete(existing, rendered), None

    async def _take_existing(self, main: Manifest, rendered: Rendered) -> tuple[Manifest, str | None] | None:
        """A job of this very name: made by this try a moment ago, or by something else."""
        same = annotation(main, labels.DIGEST) == self._order.digest and not is_being_ended(main)
        if not same or annotation(main, labels.IDENTITY) != self._identity.model_dump_json():
            return None
        if (await View.read(self._cluster, self._kind, main)).status().phase.ended:
            return None
        return await self._complete(main, rendered), "this try has already started it"

    async def _remove(self, manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            await self._client.delete(resource_of(manifest), self._namespace, manifest["metadata"]["name"])

    async def _create_main(self, manifest: Manifest) -> Manifest | None:
        """Create the main object; None where its name is taken, perhaps by an attempt whose answer was lost."""
        begun = time.monotonic()
        while True:
            try:
                return await self._client.create(self._kind.resource, self._namespace, manifest)
            except ApiError as error:
                waited = time.monotonic() - begun
                if error.status == _CONFLICT and error.reason == "AlreadyExists":
                    return None
                unseen = self._kind.unseen is not None and self._kind.unseen in str(error)
                if not (unseen and waited < _UNSEEN_SECONDS) and (not _in_doubt(error) or waited > _DOUBT_BUDGET):
                    raise refusal(error, self._kind.resource, self._namespace) from error
            # Nobody knows whether it is there. The name is this try's own, so asking is safe, and so is trying again.
            await asyncio.sleep(_DOUBT_SECONDS)
            try:
                return await self._client.get(self._kind.resource, self._namespace, manifest["metadata"]["name"])
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    raise refusal(error, self._kind.resource, self._namespace) from error

    async def _complete(self, main: Manifest, rendered: Rendered) -> Manifest:
        """Create what belongs to the job, as the main object's own, and note that all is there.

        :raises SubmitError: somebody has ended the job meanwhile.
        """
        if annotation(main, labels.COMPLETE) is not None:
            return main
        try:
            return await self._create_parts(main, rendered)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise refusal(error, self._kind.resource, self._namespace) from error
            await self._remove(rendered.before)
            name, try_number = main["metadata"]["name"], self._identity.try_number
            raise SubmitError(
                f"Job {name} was deleted while it was submitted: a later try of the task has one, and try {try_number} "
                "is out of date; or somebody deleted it."
            ) from error

    async def _create_parts(self, main: Manifest, rendered: Rendered) -> Manifest:
        owner = _owner_reference(main)
        for manifest in rendered.before:
            resource = resource_of(manifest)
            owned = {"metadata": {"ownerReferences": [owner]}}
            await self._client.patch(resource, self._namespace, manifest["metadata"]["name"], owned)
        for manifest in rendered.after:
            owned = copy.deepcopy(manifest)
            owned["metadata"]["ownerReferences"] = [owner]
            await self._ensure(owned)
        patch = {"metadata": {"annotations": {labels.COMPLETE: "true"}}}
        return await self._client.patch(self._kind.resource, self._namespace, main["metadata"]["name"], patch)

    async def _ensure(self, manifest: Manifest) -> None:
        """Create an object unless it is there."""
        resource, patience = resource_of(manifest), time.monotonic() + _DOUBT_BUDGET
        while True:
            try:
                await self._client.create(resource, self._namespace, manifest)
                return
            except ApiError as error:
                if error.status == _CONFLICT and error.reason == "AlreadyExists":
                    return
                if not _in_doubt(error) or time.monotonic() > patience:
                    raise refusal(error, resource, self._namespace) from error
            await asyncio.sleep(_DOUBT_SECONDS)

    async def _look_again(self, main: Manifest) -> None:
        """Another try may have looked for a job, found none, and created its own at the same moment."""
        for kind, other in await self._others(main):
            if is_being_ended(other):
                continue
            if owner_of(other) > self._identity.try_number:
                await end(self._cluster, self._kind, main, "a later try of the task has a job")
                raise SubmitError(
                    f"Try {owner_of(other)} of this task started job {other['metadata']['name']} at the same moment; "
                    f"try {self._identity.try_number} is out of date and ended its own."
                )
            if not (await View.read(self._cluster, kind, other)).status().phase.ended:
                await end(self._cluster, kind, other, "a later try of the task has a job")
                await until_gone(self._cluster, kind, other, self._order.grace)

    async def _others(self, main: Manifest) -> list[tuple[Kind, Manifest]]:
        """The task's other jobs of this kind. Of two made at once, the later one's maker sees both."""
        version = main["metadata"]["resourceVersion"]
        found = await jobs_of(self._cluster, (self._kind,), self._namespace, self._identity, not_older_than=version)
        return [(kind, other) for kind, other in found if other["metadata"]["uid"] != main["metadata"]["uid"]]

    async def _render(self, name: str) -> Rendered:
        rendered = self._order.render(name, await self._facts())
        if not rendered.before and not rendered.after:
            rendered.main["metadata"]["annotations"][labels.COMPLETE] = "true"
        return rendered

    async def _facts(self) -> Facts:
        schema = await self._cluster.schema(self._kind.resource) if self._kind.reads_schema else None
        runtime = None
        if self._order.runtime:
            try:
                runtime = await self._client.get_path(self._order.runtime)
            except ApiError as error:
                raise refusal(error, self._kind.resource, self._namespace) from error
        return Facts(schema=schema, runtime=runtime)


async def jobs_of(
    cluster: Cluster, kinds: Iterable[Kind], namespace: str, identity: Identity, *, not_older_than: str = ""
) -> list[tuple[Kind, Manifest]]:
    """The task's jobs, the latest try's first.

    :param identity: the task.
    :param not_older_than: the moment that has to be in what is read; empty for all until now.
    """
    found = []
    for kind in kinds:
        listing = await cluster.client.list(
            kind.resource,
            namespace,
            label_selector=f"{labels.OURS},{labels.TASK}={identity.key}",
            not_older_than=not_older_than,
        )
        found += [(kind, item) for item in listing.items if annotation(item, labels.IDENTITY)]
    return sorted(
        found, key=lambda entry: (owner_of(entry[1]), entry[1]["metadata"]["creationTimestamp"]), reverse=True
    )


def _in_doubt(error: ApiError) -> bool:
    """Whether the object may have been created although there was an error."""
    return error.status is None or error.status >= 500


def _owner_reference(main: Manifest) -> Manifest:
    metadata = main["metadata"]
    return {
        "apiVersion": main["apiVersion"],
        "kind": main["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
