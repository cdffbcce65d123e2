"""A job's logs for one reader: from where it left off, and to where it gets."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.live import pods_watch
from airflow_trainer_provider.cluster.log_place import LogPlace
from airflow_trainer_provider.cluster.logs import Logs, tail
from airflow_trainer_provider.cluster.objects import annotation, is_ours
from airflow_trainer_provider.cluster.view import View
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.backend import LogBlock
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Kind, Manifest

log = logging.getLogger(__name__)

#: How often the place is written down while lines come, and how long the last time may take, in seconds.
_SAVE_SECONDS = 30.0
_LAST_SAVE_SECONDS = 5.0


class JobLogs:
    """The logs of one job, as one reader has them. A named reader's place is kept on the main object of a
    job of ours; on somebody else's nothing is written.

    :param cluster: where the job runs.
    :param kind: of its main object.
    :param main: the main object.
    :param reader: whose place is kept; empty keeps none.
    :param place: where to begin; None where the reader left off.
    :param replicas: only these; None for all.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        main: Manifest,
        reader: str,
        *,
        place: LogPlace | None = None,
        replicas: Collection[str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._main = main
        # A name of any length and of any characters makes a key.
        digest = hashlib.sha256(reader.encode()).hexdigest()[:16]
        self._key = f"{labels.PREFIX}/log-{digest}" if reader and is_ours(main) else None
        self._place = place or LogPlace((self._key and annotation(main, self._key)) or "")
        self._replicas = replicas
        self._saved = self._place.text()
        self._logs: Logs | None = None

    async def blocks(self, ended: asyncio.Event) -> AsyncGenerator[LogBlock, None]:
        """Each line that the reader has not had, up to the job's end. See :meth:`Logs.blocks`.

        :param ended: set when the job has ended.
        """
        metadata = self._main["metadata"]
        watch = pods_watch(self._cluster, self._kind, metadata["namespace"])
        try:
            with watch.subscribe(metadata["name"]) as pods:
                view = View(self._kind, self._main)
                self._logs = Logs(self._cluster.client, pods, view.replica_of, self._place, replicas=self._replicas)
                saved_at = time.monotonic()
                async with aclosing(self._logs.blocks(ended)) as blocks:
                    async for block in blocks:
                        yield block
                        if time.monotonic() - saved_at > _SAVE_SECONDS:
                            saved_at = time.monotonic()
                            await self._save()
        finally:
            try:
                await asyncio.wait_for(self._save(), _LAST_SAVE_SECONDS)
            except asyncio.TimeoutError:
                log.warning("The place in the logs of %s was not kept in time", self._main["metadata"]["name"])

    async def tail(self, view: View, replica: str, lines: int) -> list[str]:
        """The last lines of a replica: from its pod, and where that is gone, what was read of it here.

        :param view: the job, as it was seen last.
        """
        for pod in reversed(view.pods_of(replica)):
            metadata, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
            try:
                found = await tail(self._cluster.client, metadata["namespace"], metadata["name"], container, lines)
            except ApiError as error:
                log.debug("No last lines of %s: %s", metadata["name"], error)
                continue
            if found:
                return found
        return self._logs.tail(replica, lines) if self._logs else []

    async def _save(self) -> None:
        text = self._place.text()
        if text == self._saved or self._key is None:
            return
        metadata = self._main["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {self._key: text}}}
        try:
            await self._cluster.client.patch(self._kind.resource, metadata["namespace"], metadata["name"], patch)
            self._saved = text
        except ApiError as error:
            # Who takes over tells some lines again, which is better than none.
            log.debug("The place in the logs of %s is not kept: %s", metadata["name"], error)
