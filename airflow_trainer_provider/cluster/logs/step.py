"""What the reader of a container's log does next, as a table."""

from __future__ import annotations

from enum import Enum, Flag, auto


class Known(Flag):
    """What a reader knows of its container."""

    #: All runs that there have been are read to their end.
    READ = auto()
    #: No other run follows: the pod has ended, or was looked at after the job's end.
    OVER = auto()
    #: The pod is deleted, as the watch says.
    GONE = auto()
    #: A look at the pod has not found it: its last version is still to come by the watch.
    MISSING = auto()
    JOB_ENDED = auto()
    #: Something went otherwise than expected: another pod may have the name.
    IN_DOUBT = auto()


class Step(Enum):
    """What a reader does next."""

    #: All has been read, and nothing can follow.
    STOP = auto()
    #: All has been read, and the container may start again; or how the pod has ended is still to come.
    WAIT = auto()
    #: The rest has gone with the pod.
    GIVE_UP = auto()
    #: See whether it is still this pod that has the name.
    LOOK = auto()
    READ = auto()


#: What has to be known, and the step that follows: of the first row all of which is known.
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

    :param known: all that holds.
    """
    return next(step for needed, step in STEPS if known & needed == needed)
