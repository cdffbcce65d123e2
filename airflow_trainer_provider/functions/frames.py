"""A function's value that a termination message has no room for: lines of rank 0's log, put together again."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_trainer_provider.functions.runner import FRAME, FRAME_BYTES, RETURNED_BY
from airflow_trainer_provider.job.result import VALUE_LIMIT_BYTES, no_value

#: The most lines of one value, and the most that a log has of it: under mpirun they come twice.
MOST_FRAMES = -(-VALUE_LIMIT_BYTES // FRAME_BYTES)
MOST_LINES = 2 * MOST_FRAMES
#: How many of the missing ones a message names.
_NAMED = 5
# torchrun, mpirun and others may write before it, and a terminal's line end has a carriage return.
_HEAD = re.compile(rf"{FRAME} (?P<digest>[0-9a-f]{{8}}) (?P<number>\d{{1,6}})/\d{{1,6}} ")
# mpirun writes what other ranks print into it, and between its parts.
_FRAME = re.compile(rf"{_HEAD.pattern}(?P<part>[A-Za-z0-9+/]+=*) (?P<check>[0-9a-f]{{8}})")
# A line of a script may begin like one; mpirun may break one off.
_LIKE_FRAME = re.compile(rf"{_HEAD.pattern}([A-Za-z0-9+/]{{64}}|[A-Za-z0-9+/]+=* [0-9a-f]{{8}})")
_WAY_OUT = "Write values of this size to storage, and return their address."


def is_frame(text: str) -> bool:
    """Whether a line is a part of a value, and of no use to who reads the log.

    :param text: the line.
    """
    return FRAME in text and _LIKE_FRAME.search(text) is not None


@dataclass(frozen=True)
class Framed:
    """What a termination message says of a value that is in the log.

    :param function: the function's name.
    :param sha256: of the value with its wrapping, in hexadecimal digits.
    :param size: its bytes.
    :param count: its lines.
    """

    function: str
    sha256: str
    size: int
    count: int

    @classmethod
    def parse(cls, message: bytes) -> Framed | None:
        """Read a termination message; None where that is something else.

        :param message: what rank 0 has written.
        """
        try:
            found = json.loads(message)
            framed = cls(found[RETURNED_BY], found["sha256"], found["bytes"], found["frames"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        types = [type(each) for each in vars(framed).values()]
        return framed if types == [str, str, int, int] and 0 < framed.count <= MOST_FRAMES else None


class Frames:
    """The lines of the value that came last. Those of an earlier one are dropped, for example after a restart."""

    def __init__(self) -> None:
        self._digest = ""
        self._parts: dict[int, str] = {}

    def take(self, texts: Iterable[str]) -> None:
        """Collect the lines of a value.

        :param texts: lines of a log; others are passed over.
        """
        for found in (each for text in texts if FRAME in text for each in _FRAME.finditer(text)):
            number, part = int(found["number"]), found["part"]
            if not 0 < number <= MOST_FRAMES or binascii.crc32(part.encode()) != int(found["check"], 16):
                continue
            if found["digest"] != self._digest:
                self._digest, self._parts = found["digest"], {}
            self._parts[number] = part

    def fill(self, other: Frames) -> None:
        """Take what is missing here from what others have read of the same value.

        :param other: what they have.
        """
        if self._digest in ("", other._digest):
            self._digest, self._parts = other._digest, {**other._parts, **self._parts}

    def missing(self, framed: Framed) -> list[int]:
        """The numbers of the lines that have not come.

        :param framed: the value.
        """
        here = self._parts if self._is_of(framed) else {}
        return [number for number in range(1, framed.count + 1) if number not in here]

    def value(self, framed: Framed) -> bytes | None:
        """The value with its wrapping; None where it is not whole, or another than was written.

        :param framed: what is known of it.
        """
        if self.missing(framed):
            return None
        content = self._content(framed)
        return content if hashlib.sha256(content).hexdigest() == framed.sha256 else None

    def problem(self, framed: Framed, where: str) -> bytes:
        """What stands for a value that :meth:`value` does not give.

        :param framed: what is known of it.
        :param where: the lines were looked for, and what went wrong there.
        """
        value = f"the function's value of {framed.size} bytes"
        missing = self.missing(framed)
        if missing:
            named = ", ".join(map(str, missing[:_NAMED])) + (", ..." if len(missing) > _NAMED else "")
            lines = f"of its {framed.count} lines '{FRAME} {framed.sha256[:8]}', {len(missing)} ({named})"
            why = f"{value} is not whole: {lines} are not in {where}. Kubernetes gives the newest file of a log only"
        else:
            got = hashlib.sha256(self._content(framed)).hexdigest()
            why = f"{value} has the SHA-256 digest {framed.sha256}, and what is in {where} has {got}"
        return no_value(framed.function, f"{why}. {_WAY_OUT}")

    def _is_of(self, framed: Framed) -> bool:
        return framed.sha256.startswith(self._digest) and bool(self._digest)

    def _content(self, framed: Framed) -> bytes:
        try:
            return b"".join(base64.b64decode(self._parts[number + 1]) for number in range(framed.count))
        except binascii.Error:
            # Something else was written into a line.
            return b""
