"""Reads the logs of a job's replicas, each line once per reader."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from airflow_trainer_provider.job.backend import LogLine
from airflow_trainer_provider.local.run_folder import RunFolder
from airflow_trainer_provider.text.printable import CUT, LONGEST_LINE, LONGEST_LINE_BYTES, plain, shorten

log = logging.getLogger(__name__)

#: How many bytes are read and processed at a time.
_SLICE_BYTES = 2 * LONGEST_LINE_BYTES
#: The end of a line, or the carriage return after which its text starts over.
_LINE_END = re.compile(rb"\n|\r(?=[^\r\n])")


@dataclass(frozen=True)
class LogSlice:
    """Some lines of one replica's log.

    :param replica: the replica's name.
    :param key: of its log file.
    :param lines: the text of each line, and where in the file the line ends.
    """

    replica: str
    key: str
    lines: list[tuple[str, int]]

    @property
    def attempt(self) -> int:
        """The number of the attempt that wrote the lines."""
        return int(self.key.partition("/")[0])


#: Seconds within which a process passes on the lines that it has emitted: a triggerer's lines go through another
#: process.
_TRAIL_SECONDS = 1.0


class LogReader:
    """One reader's cursor in the logs of one job. It outlives the process: see :meth:`save`.

    :param folder: the job's folder.
    :param reader: the reader's name.
    """

    def __init__(self, folder: RunFolder, reader: str) -> None:
        self._folder = folder
        # Names of DAG and task together can be longer than a file's name may be.
        name = hashlib.sha256(reader.encode()).hexdigest()[:16]
        self._file = folder.path / "readers" / f"{name}.json"
        # Files whose cursor is in the middle of a line whose rest is cut.
        self._cut: set[str] = set()
        try:
            self._offsets: dict[str, int] = json.loads(self._file.read_text())
        except FileNotFoundError:
            self._offsets = {}
        self._saved = dict(self._offsets)
        self._earlier, self._earlier_at = dict(self._offsets), time.monotonic()
        self._can_save = True

    def slices(self, *, ended: bool) -> Iterator[LogSlice]:
        """The existing lines that have not been emitted, attempt by attempt and replica by replica.

        Each step reads a bounded part of one file, in the thread that takes the step. Take the lines of a slice with
        :meth:`emitting` before the next slice. A line that is too long to be shown whole is returned before its end is
        written.

        :param ended: whether nothing will be written any more, so that a last line may lack its line end.
        """
        for attempt in self._folder.attempts():
            for path in sorted(attempt.logs.glob("*.log")):
                yield from self._slices_of(path, f"{attempt.path.name}/{path.stem}", ended)

    def emitting(self, part: LogSlice) -> Iterator[LogLine]:
        """The lines of a slice; each counts as emitted when it is taken, as the caller may stop there.

        :param part: the slice.
        """
        for text, end in part.lines:
            self._offsets[part.key] = end
            yield LogLine(part.replica, text, (part.attempt, end))

    def emitted(self, replica: str, since: tuple[int, int]) -> Iterator[LogSlice]:
        """The lines of a replica after a position, which this reader has already emitted.

        :param replica: its name.
        :param since: the position: the number of an attempt, and an offset in its log.
        """
        for attempt in self._folder.attempts():
            number, key = int(attempt.path.name), f"{attempt.path.name}/{replica}"
            begin, end = since[1] if number == since[0] else 0, self._offsets.get(key, 0)
            path = attempt.logs / f"{replica}.log"
            if number >= since[0] and begin < end and path.exists():
                yield from _slices_between(path, key, begin, end)

    def save(self) -> None:
        """Save the cursor for the next process that reads under this name. A full disk does not stop the reader."""
        self._write(dict(self._offsets))

    def save_trailing(self) -> None:
        """Save the cursor of a moment ago: a killed process may not have passed on the lines that it emitted since."""
        now = time.monotonic()
        if now - self._earlier_at >= _TRAIL_SECONDS:
            self._write(self._earlier)
            self._earlier, self._earlier_at = dict(self._offsets), now

    def _write(self, offsets: dict[str, int]) -> None:
        if offsets == self._saved:
            return
        draft = self._file.with_suffix(".draft")
        try:
            draft.write_text(json.dumps(offsets))
            draft.replace(self._file)
            self._saved = offsets
        except OSError as error:
            could_save, self._can_save = self._can_save, False
            # The process's own log may be on the same disk. Raised from here, its error would cause lines to be read
            # again.
            with suppress(Exception):
                if could_save:
                    log.warning("%s cannot be written; another process may repeat log lines: %s", self._file, error)

    def _slices_of(self, path: Path, key: str, ended: bool) -> Iterator[LogSlice]:
        with path.open("rb") as file:
            is_last = False
            while not is_last:
                begin = file.seek(self._offsets.get(key, 0))
                data = file.read(_SLICE_BYTES)
                is_last = len(data) < _SLICE_BYTES
                if key in self._cut:
                    self._offsets[key] = begin + self._skipped(key, data)
                    # The data after the end of the line is yet to be read.
                    is_last = is_last and key in self._cut
                elif lines := _lines(data, is_last and ended):
                    yield LogSlice(path.stem, key, [(text, begin + end) for text, end in lines])
                elif len(data) > LONGEST_LINE_BYTES:
                    if returned := _overwritten(data):
                        self._offsets[key] = begin + returned
                        is_last = False
                    else:
                        self._cut.add(key)
                        yield LogSlice(path.stem, key, [(plain(data)[:LONGEST_LINE] + CUT, begin + len(data))])

    def _skipped(self, key: str, data: bytes) -> int:
        """How many bytes belong to a line whose rest is cut."""
        end = _LINE_END.search(data)
        if end is None:
            # A carriage return at the end is not skipped: what follows decides what it means.
            return len(data) - data.endswith(b"\r")
        self._cut.discard(key)
        return end.end()


def last_lines(path: Path, lines: int | None = None) -> Iterator[str]:
    """The last lines of a log, as a terminal shows them, read one by one in bounded memory.

    :param path: the log; nothing is returned where there is none.
    :param lines: how many at most; None returns all.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(0 if lines is None else _begin_of_last(file, lines))
        yield from islice(_shown(file), lines)


def _begin_of_last(file: BinaryIO, lines: int) -> int:
    """The offset at which the last lines of a file begin."""
    # The last line may lack its line end.
    end = max(0, file.seek(0, os.SEEK_END) - 1)
    while end:
        begin = max(0, end - _SLICE_BYTES)
        file.seek(begin)
        data = file.read(end - begin)
        found = data.count(b"\n")
        if found >= lines:
            at = len(data)
            for _ in range(lines):
                at = data.rfind(b"\n", 0, at)
            return begin + at + 1
        lines -= found
        end = begin
    return 0


def _shown(file: BinaryIO) -> Iterator[str]:
    """The lines of a file, from its current position on."""
    while part := _part(file):
        line = part
        while not part.endswith(b"\n") and (part := _part(file)):
            returned = part.rstrip(b"\r\n").rfind(b"\r")
            if returned >= 0:
                line = part[returned:]
            elif len(line) <= LONGEST_LINE_BYTES:
                line += part
        yield shorten(plain(line))


def _part(file: BinaryIO) -> bytes:
    """A line, or a part of one that is too long to be shown whole."""
    part = file.readline(LONGEST_LINE_BYTES)
    # Read on after a carriage return: what follows decides what it means.
    while part.endswith(b"\r") and (more := file.readline(LONGEST_LINE_BYTES)):
        part += more
    return part


def _slices_between(path: Path, key: str, begin: int, end: int) -> Iterator[LogSlice]:
    with path.open("rb") as file:
        while begin < end:
            file.seek(begin)
            data = file.read(min(_SLICE_BYTES, end - begin))
            if not data:
                return
            lines = _lines(data, begin + len(data) >= end)
            if lines:
                yield LogSlice(path.stem, key, [(text, begin + offset) for text, offset in lines])
            begin += lines[-1][1] if lines else len(data)


def _lines(data: bytes, is_all: bool) -> list[tuple[str, int]]:
    """The text of each whole line, and where it ends.

    :param is_all: whether nothing will follow, so that the last line may lack its line end.
    """
    *whole, rest = data.split(b"\n")
    found, end = [], 0
    for line in whole:
        end += len(line) + 1
        found.append((shorten(plain(line)), end))
    if rest and is_all:
        found.append((shorten(plain(rest)), len(data)))
    return found


def _overwritten(data: bytes) -> int:
    """How many bytes a later carriage return overwrites."""
    return max(data.rstrip(b"\r").rfind(b"\r"), 0)
