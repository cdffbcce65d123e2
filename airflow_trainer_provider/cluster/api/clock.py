"""How far the API server's clock is from this machine's."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from airflow_trainer_provider.job.status import JobStatus

#: Answers have their time in whole seconds, and take a moment: a difference that is not greater is none.
_UNCERTAIN = timedelta(seconds=2)


class ServerClock:
    """The clock by which a cluster's objects have their times."""

    def __init__(self) -> None:
        #: By how much it is ahead of this machine's.
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
        """A job's status, with the times by which its start and its end are measured by this machine's clock.

        :param status: as the cluster has it.
        """
        if not self.ahead:
            return status
        times = {name: getattr(status, name) for name in ("waiting_since", "deadline_at")}
        return status.model_copy(update={name: at - self.ahead for name, at in times.items() if at})
