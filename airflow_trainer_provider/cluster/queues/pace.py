"""How often a queue is asked for the jobs that wait in it: often while one of them may start soon."""

from __future__ import annotations

from airflow_trainer_provider.cluster.queues.state import Positions

#: Between two questions up to the position that is near, and from the one that is far; seconds. Between them it grows.
POSITIONS_EVERY = 5.0
_NEAR = 10
FAR = 50
FAR_EVERY = 60.0


def pace(position: int) -> float:
    """Seconds from one question to the next.

    :param position: the first one of those that wait here, from 1.
    """
    share = (min(max(position, _NEAR), FAR) - _NEAR) / (FAR - _NEAR)
    return POSITIONS_EVERY + share * (FAR_EVERY - POSITIONS_EVERY)


def at_least(positions: Positions, uid: str) -> int:
    """The position that a job that waits has at least: where the list is cut it is behind all of those listed, and one
    that is not in a whole list has come since.

    :param uid: of the job.
    """
    found = positions.by_uid.get(uid)
    if found is not None:
        return found.local
    return 1 if positions.length is not None else FAR
