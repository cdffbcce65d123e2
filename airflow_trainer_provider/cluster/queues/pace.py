"""How often the positions in a queue are requested: often while one of the jobs may start soon."""

from __future__ import annotations

from airflow_trainer_provider.cluster.queues.state import Positions

#: The interval of requests, in seconds, up to position ``_NEAR`` and from position ``FAR`` on. In between it grows with
#: the position.
POSITIONS_EVERY = 5.0
_NEAR = 10
FAR = 50
FAR_EVERY = 60.0


def pace(position: int) -> float:
    """Seconds from one request to the next.

    :param position: the first position of the jobs that are followed here, from 1.
    """
    share = (min(max(position, _NEAR), FAR) - _NEAR) / (FAR - _NEAR)
    return POSITIONS_EVERY + share * (FAR_EVERY - POSITIONS_EVERY)


def at_least(positions: Positions, uid: str) -> int:
    """The first position that a waiting job can have.

    Where the list is cut, a job that is not in it is behind all listed jobs. Where the list is whole, such a job has
    come since.

    :param uid: of the job.
    """
    found = positions.by_uid.get(uid)
    if found is not None:
        return found.local
    return 1 if positions.length is not None else FAR
