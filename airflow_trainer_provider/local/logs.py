"""Reads the logs of a job's replicas, each line once per reader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from airflow_trainer_provider.job.backend import LogLine
from airflow_trainer_provider.job.log_text import plain
from airflow_trainer_provider.local.run_folder import RunFolder

_CHUNK_BYTES = 1 << 20


class LogReader:
    """One reader's place in the logs of one job. It outlives the process: see :meth:`save`.

    :param folder: the job's folder.
    :param reader: the reader's name.
    """

    def __init__(self, folder: RunFolder, reader: str) -> None:
        self._folder = folder
        # Names of DAG and task together can be longer than a file's name may be.
        name = hashlib.sha256(reader.encode()).hexdigest()[:16]
        self._file = folder.path / "readers" / f"{name}.json"
        try:
            self._offsets: dict[str, int] = json.loads(self._file.read_text())
        except FileNotFoundError:
            self._offsets = {}

    def read(self, *, ended: bool) -> Iterator[LogLine]:
        """The lines that are there and have not been read, attempt by attempt and replica by replica.

        :param ended: whether nothing will be written any more, so that a last line may lack its line end.
        """
        for attempt in self._folder.attempts():
            for path in sorted(attempt.logs.glob("*.log")):
                yield from self._read_file(path, f"{attempt.path.name}/{path.stem}", ended)

    def save(self) -> None:
        """Keep the place for the next process that reads under this name."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(self._offsets))
        draft.replace(self._file)

    def _read_file(self, path: Path, key: str, ended: bool) -> Iterator[LogLine]:
        with path.open("rb") as file:
            file.seek(self._offsets.get(key, 0))
            while chunk := file.readlines(_CHUNK_BYTES):
                for line in chunk:
                    if not line.endswith(b"\n") and not ended:
                        return
                    # Before the line goes out: whoever takes it may not come back.
                    self._offsets[key] = self._offsets.get(key, 0) + len(line)
                    yield LogLine(path.stem, plain(line))


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log.

    :param path: the log; an empty list is returned where there is none.
    :param lines: how many at most.
    """
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - _CHUNK_BYTES))
            return [plain(line) for line in file.readlines()[-lines:]]
    except FileNotFoundError:
        return []
