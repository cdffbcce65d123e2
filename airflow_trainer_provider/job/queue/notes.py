"""Notes for a log about how a job advances in its queue."""

from __future__ import annotations

from airflow_trainer_provider.job.queue.place import QueuePlace


class QueueNotes:
    """The notes on one job: its first position, each time that its position has halved or doubled, and position 1."""

    # One instance exists for each waiting job.
    __slots__ = ("_position", "_why")

    def __init__(self) -> None:
        self._position: int | None = None
        self._why: str | None = None

    def note(self, place: QueuePlace | None) -> str | None:
        """A note, if there is news; None otherwise.

        :param place: the job's place; None where it is in no queue.
        """
        if place is None:
            return None
        where = place.where()
        if place.position is None or where is None:
            return self._note_unknown(place)
        if not self._is_news(place.position):
            return None
        self._position = place.position
        return "; ".join([where, *(each.text() for each in place.missing)])

    def _is_news(self, position: int) -> bool:
        if self._position is None or position == self._position:
            return self._position is None
        return position == 1 or position <= self._position / 2 or position >= 2 * self._position

    def _note_unknown(self, place: QueuePlace) -> str | None:
        if place.estimate_why is None or place.estimate_why == self._why or self._position is not None:
            return None
        self._why = place.estimate_why
        return f"position in queue {place.name} unknown: {place.estimate_why.rstrip('.')}"
