"""What a watch does after a failed attempt to list or watch, as tables."""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import NamedTuple


class Seen(Flag):
    """What is known of a failed attempt."""

    #: The resource version has expired (410 Gone). That is normal, also at the end of an outage.
    GONE = auto()
    #: A version has expired before, no event has come since, and the last list was a moment ago.
    AGAIN = auto()
    #: Watching is forbidden (403), where listing was possible; the next list shows whether it still is.
    FORBIDDEN = auto()
    #: The stream was silent, without even bookmarks: events may be missing.
    SILENT = auto()


class Failure(Enum):
    """The failure of an attempt to list or watch."""

    EXPIRED = auto()
    EXPIRED_AGAIN = auto()
    FORBIDDEN = auto()
    SILENT = auto()
    OTHER = auto()


class Reaction(NamedTuple):
    """What follows from a failure.

    :param lists_again: whether the next attempt is a list; else it watches from the same version.
    :param pauses: whether there is a pause before the next attempt.
    :param is_outage: whether the failure counts towards an outage, or a refusal, that subscribers are notified of.
    """

    lists_again: bool = True
    pauses: bool = True
    is_outage: bool = False


#: The facts that make a failure. The first row whose facts all hold applies.
FAILURES = (
    (Seen.GONE | Seen.AGAIN, Failure.EXPIRED_AGAIN),
    (Seen.GONE, Failure.EXPIRED),
    (Seen.FORBIDDEN, Failure.FORBIDDEN),
    (Seen.SILENT, Failure.SILENT),
    (Seen(0), Failure.OTHER),
)

REACTIONS = {
    Failure.EXPIRED: Reaction(pauses=False),
    Failure.EXPIRED_AGAIN: Reaction(),
    Failure.FORBIDDEN: Reaction(),
    Failure.SILENT: Reaction(is_outage=True),
    Failure.OTHER: Reaction(lists_again=False, is_outage=True),
}


def failure_of(seen: Seen) -> Failure:
    """The failure of an attempt.

    :param seen: all facts that hold for the attempt.
    """
    return next(failure for needed, failure in FAILURES if seen & needed == needed)
