"""An in-memory index of all jobs, shared by all viewers. Unchanged jobs are not read again from the database."""

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
#: The minimum number of seconds between two reads of the database, regardless of the number of viewers.
KEPT_SECONDS = 2.0
#: Seconds for which the last data is shown while the database does not answer.
OLD_SECONDS = 30.0
#: Seconds for which requests wait for the first read, which takes longer.
FIRST_SECONDS = 5.0
#: How long a worker may still write XComs after its task was ended by another component.
_SETTLES = timedelta(minutes=10)


class Unread(Exception):
    """The database has not answered in time."""


class JobIndex:
    """All active jobs, and the jobs that ended recently."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked_at = self._read_at = -math.inf
        self._entries: Mapping[str, tuple[str, JobEntry | None]] = {}

    def entries(self, now: datetime) -> Sequence[JobEntry]:
        """All jobs, unordered. One request blocks while the database answers; others block for a short time at most.

        :param now: the current time.
        :raises Unread: there is no data, or only old data.
        """
        # A thread of the API server that waits here cannot serve other requests.
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
            # Also after an error: requests that waited for the lock do not read again.
            self._asked_at = time.monotonic()

    def _refreshed(self, now: datetime) -> Mapping[str, tuple[str, JobEntry | None]]:
        since, settled = now - timedelta(days=ENDED_DAYS), now - _SETTLES
        versions = read_versions(since, settled)
        kept = {id: pair for id, pair in self._entries.items() if versions.get(id) == pair[0]}
        for id, owners, records in read_tasks([id for id in versions if id not in kept], STATE_KEYS):
            kept[id] = (versions[id], entry_of(id, records, owners, now))
        return kept
