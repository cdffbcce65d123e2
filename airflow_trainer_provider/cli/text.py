"""Formats jobs as text for users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from airflow_trainer_provider.job.overview import Description, Overview
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.text.printable import printable

_JOBS = ("NAME", "KIND", "PHASE", "READY", "AGE", "DAG", "TASK", "RUN", "TRY")
_REPLICAS = ("REPLICA", "RANK", "STATE", "EXIT", "RESTARTS", "MESSAGE")
_PRESETS = ("NAME", "FIELDS", "DESCRIPTION")
_UNKNOWN = "-"
_MOST_WARNINGS = 10
_LONGEST_MESSAGE = 100


def table(jobs: Sequence[Overview], now: datetime) -> str:
    """One line for each job.

    :param now: the time from which ages are counted.
    """
    if not jobs:
        return "No training jobs."
    rows = []
    for job in jobs:
        phase = job.status.phase.value + (f" ({job.status.reason})" if job.status.reason else "")
        task = job.identity
        of_task = (task.dag_id, _task(task.task_id, task.map_index), task.run_id, str(task.try_number)) if task else ()
        ready = f"{job.running}/{job.replicas}"
        rows.append((job.name, job.kind, phase, ready, age(job.status.queued_at, now), *(of_task or (_UNKNOWN,) * 4)))
    return _columns([_JOBS, *rows])


def describe(found: Description) -> str:
    """All that is known of one job."""
    job, status, task = found.overview, found.overview.status, found.overview.identity
    facts = {
        "Name": job.name,
        "Kind": f"{job.kind} (backend {job.backend})",
        "Where": job.location,
        "Framework": job.framework or "not known",
        "Task": f"{_task(task.task_id, task.map_index)} of DAG {task.dag_id}, run {task.run_id}, try {task.try_number}"
        if task
        else "none: something else made it",
        "Phase": status.text(),
        "Created": _time(status.queued_at),
        "Started": _time(status.started_at),
        "Finished": _time(status.finished_at),
        "Restarts": str(status.restarts),
    }
    parts = [_columns([(f"{name}:", value) for name, value in facts.items()])]
    if status.replicas:
        parts.append("Replicas:\n" + _indented(_columns([_REPLICAS, *map(_replica, status.replicas)])))
    if found.conditions:
        rows = [
            (str(each.get("type")), str(each.get("status")), each.get("reason") or _UNKNOWN, _cut(each.get("message")))
            for each in found.conditions
        ]
        parts.append("Conditions:\n" + _indented(_columns(rows)))
    if found.warnings:
        parts.append("Warnings:\n" + _indented(_columns(found.warnings[-_MOST_WARNINGS:])))
    if found.diagnosis:
        parts.append("Verdict:\n" + _indented(found.diagnosis.text()))
    return "\n\n".join(parts)


def presets(rows: Sequence[Sequence[str]]) -> str:
    """One line for each preset.

    :param rows: name, fields, and description or what is wrong with it.
    """
    return _columns([_PRESETS, *rows]) if rows else "No presets."


def age(since: datetime, now: datetime) -> str:
    """How long ago, in one or two digits and a unit."""
    seconds = max(int((now - since).total_seconds()), 0)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _replica(replica: ReplicaStatus) -> tuple[str, ...]:
    end = replica.signal or (_UNKNOWN if replica.exit_code is None else str(replica.exit_code))
    state = replica.reason or ("Running" if replica.started_at else "Waiting")
    rank = _UNKNOWN if replica.rank is None else str(replica.rank)
    return replica.name, rank, state, end, str(replica.restarts), _cut(replica.message)


def _task(task_id: str, map_index: int) -> str:
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


def _time(at: datetime | None) -> str:
    return at.isoformat(timespec="seconds") if at else _UNKNOWN


def _cut(message: str | None) -> str:
    line = " ".join((message or "").split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _columns(rows: Iterable[Sequence[str]]) -> str:
    """The rows, with their columns aligned."""
    cells = [tuple(printable(cell).replace("\n", " ") for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
