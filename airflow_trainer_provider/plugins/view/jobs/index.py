"""The jobs as every viewer needs them, kept in the server's memory. Of what has not changed nothing is read again."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock

from airflow_trainer_provider.plugins.view.database import STATE_KEYS
from airflow_trainer_provider.plugins.view.jobs.database import read_tasks, read_versions
from airflow_trainer_provider.plugins.view.jobs.entry import JobEntry, entry_of

log = logging.getLogger(__name__)

#: Days for which a job is listed after its end.
ENDED_DAYS = 7
#: Seconds for which the database is not asked again, however many watch.
KEPT_SECONDS = 2.0
#: Seconds for which what was read is shown while the database does not answer.
OLD_SECONDS = 30.0
#: Seconds for which requests wait for the first answer, which takes longer.
FIRST_SECONDS = 5.0
#: For how long a worker may still write what it knows of a task that something else has ended.
_SETTLES = timedelta(minutes=10)


class Unread(Exception):
    """The database has not answered in time."""


class JobIndex:
    """All jobs that go on, and those that ended lately."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked_at = self._read_at = -math.inf
        self._entries: Mapping[str, tuple[str, JobEntry | None]] = {}

    def entries(self, now: datetime) -> Sequence[JobEntry]:
        """All of them, in no order. Blocks one request while the database answers, and others for a short time.

        :param now: the time.
        :raises Unread: none are known, or only old ones.
        """
        # A thread of the API server that waits here is missing elsewhere.
        is_first = self._read_at == -math.inf
        if self._lock.acquire(timeout=FIRST_SECONDS if is_first else 0.0):
            try:
                self._refresh(now)
            finally:
                self._lock.release()
        if time.monotonic() - self._read_at > OLD_SECONDS:
            raise Unread
        return [entry for _, entry in self._entries.values() if entry]

    def _refresh(self, now: datetime) -> None:
        if time.monotonic() - self._asked_at <= KEPT_SECONDS:
            return
        try:
            self._entries = self._refreshed(now)
            self._read_at = time.monotonic()
        except Exception:
            log.exception("The training jobs could not be read")
        finally:
            # Whoever has waited does not ask once more either.
            self._asked_at = time.monotonic()

    def _refreshed(self, now: datetime) -> Mapping[str, tuple[str, JobEntry | None]]:
        since, settled = now - timedelta(days=ENDED_DAYS), now - _SETTLES
        versions = read_versions(since, settled)
        kept = {id: pair for id, pair in self._entries.items() if versions.get(id) == pair[0]}
        for id, owners, records in read_tasks([id for id in versions if id not in kept], STATE_KEYS):
            kept[id] = (versions[id], entry_of(id, records, owners, now))
        return kept
