"""A job's logs for one reader, who continues from a saved cursor."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.logs.cursor import LogCursor
from airflow_trainer_provider.cluster.logs.job_logs import Logs, tail
from airflow_trainer_provider.cluster.logs.replay import Replayed
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import is_ours
from airflow_trainer_provider.cluster.state.snapshot import Snapshot
from airflow_trainer_provider.cluster.state.watcher import pods_watch
from airflow_trainer_provider.errors import ApiError, TrainJobError
from airflow_trainer_provider.functions.frames import Frames
from airflow_trainer_provider.job.backend import LogBlock
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.objects.pod_secrets import pods_mask
from airflow_trainer_provider.kinds.status.containers import has_run
from airflow_trainer_provider.kinds.status.pod_status import failed_container
from airflow_trainer_provider.timeouts import with_timeout

log = logging.getLogger(__name__)

#: How often the cursor is saved while lines come, and how long the last save may take, in seconds.
_SAVE_SECONDS = 30.0
_LAST_SAVE_SECONDS = 5.0


class JobLogs:
    """The logs of one job, for one reader.

    A named reader's cursor is saved on the main object of a job that this provider created. Nothing is written to other
    jobs.

    :param cluster: where the job runs.
    :param job: whose logs.
    :param reader: name of the reader whose cursor is saved; empty saves none.
    :param cursor: where to begin; None for the saved cursor of the reader.
    :param replicas: only these; None for all.
    :param tracked: the replica of which all lines are emitted, as the job's progress is read from them; None for none.
    :param frames: collects the lines of the function's value, which are not emitted; None for a new collection.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: JobObject,
        reader: str,
        *,
        cursor: LogCursor | None = None,
        replicas: Collection[str] | None = None,
        tracked: Replayed | None = None,
        frames: Frames | None = None,
    ) -> None:
        self._cluster = cluster
        self._job = job
        # The digest makes a valid key of a name of any length and any characters.
        digest = hashlib.sha256(reader.encode()).hexdigest()[:16]
        self._key = f"{labels.PREFIX}/log-{digest}" if reader and is_ours(job.main) else None
        self._cursor = cursor or LogCursor((self._key and job.annotation(self._key)) or "")
        self._replicas = replicas
        self._tracked = tracked
        #: The lines of the function's value.
        self.frames = frames or Frames()
        self._saved = self._cursor.text()
        # In a task of its own: an API server that hangs must not delay the lines.
        self._saving: asyncio.Task[None] | None = None
        self._logs: Logs | None = None

    async def blocks(self, ended: asyncio.Event) -> AsyncGenerator[LogBlock, None]:
        """All lines that the reader has not received yet, up to the job's end. See :meth:`Logs.blocks`.

        :param ended: set when the job has ended.
        """
        watch = pods_watch(self._cluster, self._job.kind, self._job.namespace)
        try:
            with watch.subscribe(self._job.name) as pods:
                snapshot = Snapshot(self._job)
                self._logs = Logs(
                    self._cluster.client,
                    pods,
                    snapshot.replica_of,
                    snapshot.container_of,
                    self._cursor,
                    replicas=self._replicas,
                    tracked=self._tracked,
                    frames=self.frames,
                )
                saved_at = time.monotonic()
                async with aclosing(self._logs.blocks(ended)) as blocks:
                    async for block in blocks:
                        yield block
                        if time.monotonic() - saved_at > _SAVE_SECONDS and not self._is_saving():
                            saved_at = time.monotonic()
                            self._saving = asyncio.create_task(self._save(), name="cursor of logs")
        finally:
            try:
                await with_timeout(self._save_last(), _LAST_SAVE_SECONDS)
            except asyncio.TimeoutError:
                log.warning("The log cursor of %s was not saved in time", self._job.name)

    async def tail(self, snapshot: Snapshot, replica: str, lines: int) -> list[str]:
        """The last lines of a replica's failed container: from its pod, or where the pod has no log any more, those
        that were read here.

        :param snapshot: the job, as it was last seen.
        """
        for pod in reversed(snapshot.pods_of(replica)):
            training = snapshot.container_of(pod)
            container = failed_container(pod, training)
            name = replica if container == training else f"{replica}/{container}"
            found = await self._tail_of(pod, container, name, lines)
            # Earlier pods are not read: they ended for other reasons.
            if found or has_run(pod, container):
                mask = pods_mask([pod])
                return [mask.text(line) for line in found]
        return self._logs.tail(replica, lines) if self._logs else []

    async def _tail_of(self, pod: Manifest, container: str, name: str, lines: int) -> list[str]:
        """The last lines of a container.

        :param name: under which its lines are emitted.
        """
        metadata = pod["metadata"]
        try:
            return await tail(self._cluster.client, metadata["namespace"], metadata["name"], container, lines)
        except ApiError as error:
            log.debug("No last lines of %s: %s", metadata["name"], error)
        return self._logs.tail(name, lines, metadata["uid"]) if self._logs else []

    def _is_saving(self) -> bool:
        return self._saving is not None and not self._saving.done()

    async def _save_last(self) -> None:
        if self._saving:
            await self._saving
        await self._save()

    async def _save(self) -> None:
        text = self._cursor.text()
        if text == self._saved or self._key is None:
            return
        job = self._job
        patch = {"metadata": {"uid": job.uid, "annotations": {self._key: text}}}
        try:
            await self._cluster.client.patch(job.resource, job.namespace, job.name, patch)
            self._saved = text
        except TrainJobError as error:
            # The process that takes over emits some lines again, which is better than losing lines.
            log.debug("The log cursor of %s is not saved: %s", job.name, error)
        except Exception:
            log.exception("The log cursor of %s is not saved", job.name)
