"""Reassembles a function's value that is too large for a termination message from lines of rank 0's log."""

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

#: The maximum number of lines of one value, and of its lines in a log: with mpirun each line is printed twice.
MOST_FRAMES = -(-VALUE_LIMIT_BYTES // FRAME_BYTES)
MOST_LINES = 2 * MOST_FRAMES
#: How many missing lines a message names.
_NAMED = 5
# Other text may come before it, from torchrun or mpirun, and a terminal's line end has a carriage return.
_HEAD = re.compile(rf"{FRAME} (?P<digest>[0-9a-f]{{8}}) (?P<number>\d{{1,6}})/\d{{1,6}} ")
# mpirun may write the output of other ranks into the line and between its parts.
_FRAME = re.compile(rf"{_HEAD.pattern}(?P<part>[A-Za-z0-9+/]+=*) (?P<check>[0-9a-f]{{8}})")
# A line of a script may begin with the same words, and mpirun may cut a line.
_LIKE_FRAME = re.compile(rf"{_HEAD.pattern}([A-Za-z0-9+/]{{64}}|[A-Za-z0-9+/]+=* [0-9a-f]{{8}})")
_WAY_OUT = "Write values of this size to storage, and return their address."


def is_frame(text: str) -> bool:
    """Whether a line is a part of a value, and so not shown in the log.

    :param text: the line.
    """
    return FRAME in text and _LIKE_FRAME.search(text) is not None


@dataclass(frozen=True)
class Framed:
    """The description of a value in the log, from the termination message.

    :param function: the function's name.
    :param sha256: the SHA-256 digest of the value with its envelope, in hexadecimal digits.
    :param size: the size in bytes.
    :param count: the number of lines.
    """

    function: str
    sha256: str
    size: int
    count: int

    @classmethod
    def parse(cls, message: bytes) -> Framed | None:
        """Parse a termination message; None if it does not describe a value in the log.

        :param message: the message that rank 0 has written.
        """
        try:
            found = json.loads(message)
            framed = cls(found[RETURNED_BY], found["sha256"], found["bytes"], found["frames"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        types = [type(each) for each in vars(framed).values()]
        return framed if types == [str, str, int, int] and 0 < framed.count <= MOST_FRAMES else None


class Frames:
    """The lines of the newest value. Lines of an earlier value, e.g. from before a restart, are dropped."""

    def __init__(self) -> None:
        self._digest = ""
        self._parts: dict[int, str] = {}

    def take(self, texts: Iterable[str]) -> None:
        """Collect the lines of a value.

        :param texts: lines of a log; lines without a part of a value are skipped.
        """
        for found in (each for text in texts if FRAME in text for each in _FRAME.finditer(text)):
            number, part = int(found["number"]), found["part"]
            if not 0 < number <= MOST_FRAMES or binascii.crc32(part.encode()) != int(found["check"], 16):
                continue
            if found["digest"] != self._digest:
                self._digest, self._parts = found["digest"], {}
            self._parts[number] = part

    def fill(self, other: Frames) -> None:
        """Add missing lines of the same value from another reader.

        :param other: the lines of the other reader.
        """
        if self._digest in ("", other._digest):
            self._digest, self._parts = other._digest, {**other._parts, **self._parts}

    def missing(self, framed: Framed) -> list[int]:
        """The numbers of the missing lines.

        :param framed: the description of the value.
        """
        here = self._parts if self._is_of(framed) else {}
        return [number for number in range(1, framed.count + 1) if number not in here]

    def value(self, framed: Framed) -> bytes | None:
        """The value with its envelope; None if it is incomplete, or differs from the written value.

        :param framed: the description of the value.
        """
        if self.missing(framed):
            return None
        content = self._content(framed)
        return content if hashlib.sha256(content).hexdigest() == framed.sha256 else None

    def problem(self, framed: Framed, where: str) -> bytes:
        """The result for a value that :meth:`value` cannot return: an envelope with the error.

        :param framed: the description of the value.
        :param where: where the lines were searched, and what went wrong there.
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
            # Other output was written into a line.
            return b""
