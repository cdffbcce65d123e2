"""How fast the Training page's list of jobs is, beside Airflow's own list of task instances, on two databases.

Both are answered by one API server in one process, in turns, and asked of the same rows. PostgreSQL is Debian's, and
started here in a folder of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import heading, percentile, raw, table, verdict
from benchmarks.view_browser import drawn
from tools.airflow_runner.databases.postgresql import Postgresql

#: 5,000 jobs, and as many that ended too long ago to be listed.
JOBS = {"running": 1000, "waiting": 500, "succeeded": 3000, "failed": 500, "old": 5000}
TURNS = 60
MOST_MS = 300.0


@contextmanager
def postgresql() -> Iterator[tuple[str, int]]:
    """A PostgreSQL of this process alone, on a free port of this machine: its URL, and its process's id."""
    server = Postgresql(f"bench-{os.getpid()}")
    try:
        server.create(os.environ)
        try:
            yield server.url(0), server.process
        finally:
            server.stop()
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)


def measure(home: Path, url: str, database: int | None, jobs: Mapping[str, int], turns: int) -> dict[str, Any]:
    """What one API server took.

    :param home: an AIRFLOW_HOME.
    :param url: of the database.
    :param database: the id of its process; None for one within the API server.
    :param jobs: kind of job -> how many.
    :param turns: how often each is asked for.
    """
    home.mkdir()
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__API_AUTH__JWT_SECRET": "of this benchmark alone " * 3,
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "BENCH_VIEW": json.dumps({"jobs": dict(jobs), "turns": turns, "database": database}),
    }
    command = [sys.executable, "-m", "benchmarks.view_client"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def show(database: str, answer: Mapping[str, Any]) -> bool:
    """Print what was found of one database.

    :param database: its name.
    :param answer: of :func:`measure`.
    :return: whether the bounds were held.
    """
    found: Mapping[str, Sequence[tuple[float, float]]] = answer["found"]
    rows = {name: _Row.of(taken) for name, taken in found.items()}
    airflows = rows["airflow"]
    shown = [
        (_TITLES.get(name, name), *(f"{each:.0f}" for each in row), f"{row.cpu / airflows.cpu:.1f}")
        for name, row in rows.items()
    ]
    title = f"{database}, {answer['total']:,} jobs"
    table((title, "p50, ms", "p95, ms", "processor, ms", "its p95", "of Airflow's list"), shown)
    ours = [row for name, row in rows.items() if name not in ("airflow", "first")]
    late, cpu = max(row.p95 for row in ours), max(row.cpu95 for row in ours)
    bound = f"{database}: p95 of at most {MOST_MS:.0f} ms"
    held = [
        verdict(f"{bound}: {late:.0f}; Airflow's list {airflows.p95:.0f}", late <= MOST_MS),
        verdict(f"{bound} of a processor: {cpu:.0f}; Airflow's list {airflows.cpu95:.0f}", cpu <= MOST_MS),
    ]
    return all(held)


class _Row(NamedTuple):
    """Milliseconds until an answer, and of a processor."""

    p50: float
    p95: float
    cpu: float
    cpu95: float

    @classmethod
    def of(cls, taken: Sequence[tuple[float, float]]) -> _Row:
        walls, cpus = [wall * 1e3 for wall, _ in taken], [cpu * 1e3 for _, cpu in taken]
        return cls(percentile(walls, 50), percentile(walls, 95), sum(cpus) / len(cpus), percentile(cpus, 95))


_TITLES = {
    "first": "the first answer of an API server, which reads all jobs",
    "airflow": "Airflow's list of 50 task instances",
    "watched by others": "the page's first view, within 2 s of another viewer",
}


def main(*, quick: bool = False) -> bool:
    """Print the tables.

    :param quick: only show that it works.
    :return: whether the bounds were held.
    """
    jobs, turns = ({kind: count // 50 for kind, count in JOBS.items()}, 3) if quick else (JOBS, TURNS)
    heading(f"The Training page's list of jobs, and Airflow's list of task instances ({turns} turns)")
    with tempfile.TemporaryDirectory(prefix="bench-view-") as name:
        folder = Path(name)
        answers = {"SQLite": measure(folder / "sqlite", f"sqlite:///{folder}/airflow.db", None, jobs, turns)}
        with postgresql() as (url, process):
            answers["PostgreSQL"] = measure(folder / "home", url, process, jobs, turns)
    raw(answers)
    held = [show(database, answer) for database, answer in answers.items()]
    held.append(drawn(sum(jobs.values()) - jobs["old"], turns))
    return all(held)
