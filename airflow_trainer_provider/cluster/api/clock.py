"""How far the API server's clock is from this machine's."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from airflow_trainer_provider.job.status import JobStatus

#: The ``Date`` of an answer is in whole seconds, and an answer takes a moment: a smaller difference does not count.
_UNCERTAIN = timedelta(seconds=2)


class ServerClock:
    """The clock that the timestamps of a cluster's objects come from."""

    def __init__(self) -> None:
        #: By how much this clock is ahead of this machine's.
        self.ahead = timedelta(0)

    def note(self, date: str | None) -> None:
        """Process the time of an API server's answer.

        :param date: the ``Date`` of an answer that has just come.
        """
        try:
            ahead = parsedate_to_datetime(date or "") - datetime.now(timezone.utc)
        except (TypeError, ValueError):
            return
        if abs(ahead - self.ahead) > _UNCERTAIN:
            self.ahead = ahead if abs(ahead) > _UNCERTAIN else timedelta(0)

    def here(self, status: JobStatus) -> JobStatus:
        """A job's status, with ``waiting_since`` and ``deadline_at`` by this machine's clock.

        :param status: with the times by the cluster's clock.
        """
        if not self.ahead:
            return status
        times = {name: getattr(status, name) for name in ("waiting_since", "deadline_at")}
        return status.model_copy(update={name: at - self.ahead for name, at in times.items() if at})
