"""What the reader of a container's log does next, as a table."""

from __future__ import annotations

from enum import Enum, Flag, auto


class Known(Flag):
    """What a reader knows of its container."""

    #: All runs so far have been read to their end.
    READ = auto()
    #: No other run follows: the pod has ended, or was read again after the job's end.
    OVER = auto()
    #: The watch has reported that the pod is deleted.
    GONE = auto()
    #: A request has not found the pod: its last version is yet to come from the watch.
    MISSING = auto()
    JOB_ENDED = auto()
    #: Something unexpected happened: another pod may have the name.
    IN_DOUBT = auto()


class Step(Enum):
    """What a reader does next."""

    #: All has been read, and nothing can follow.
    STOP = auto()
    #: All has been read, and the container may start again; or the watch is yet to report how the pod has ended.
    WAIT = auto()
    #: The rest of the log was deleted with the pod.
    GIVE_UP = auto()
    #: Read the pod again, to see whether this pod still has the name.
    LOOK = auto()
    READ = auto()


#: The facts that lead to a step. The first row whose facts are all known applies.
STEPS = (
    (Known.READ | Known.OVER, Step.STOP),
    (Known.GONE, Step.GIVE_UP),
    (Known.MISSING, Step.WAIT),
    (Known.READ | Known.JOB_ENDED, Step.LOOK),
    (Known.READ, Step.WAIT),
    (Known.IN_DOUBT, Step.LOOK),
    (Known(0), Step.READ),
)


def next_step(known: Known) -> Step:
    """The step that follows from what is known.

    :param known: all facts that hold.
    """
    return next(step for needed, step in STEPS if known & needed == needed)
