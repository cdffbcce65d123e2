"""A training job's ``return_value`` as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

SUMMARY = (
    "name",
    "backend",
    "framework",
    "phase",
    "queued_at",
    "started_at",
    "finished_at",
    "queue_seconds",
    "run_seconds",
    "total_seconds",
)


def render_result(result: Mapping[str, Any]) -> str:
    """
    Return the job's summary, a row per replica, its metrics and its result.

    :param result: what the operator returned.
    """
    summary = [[key.replace("_", " "), _text(result.get(key))] for key in SUMMARY]
    summary += [[f"metric {name}", _text(value)] for name, value in (result.get("metrics") or {}).items()]
    summary.append(["result", _text(result.get("result"))])
    replicas = [_replica_row(replica) for replica in result.get("replicas") or []]
    head = ["replica", "exit code", "reason", "restarts", "peak memory"]
    return f"{_table(summary)}\n\n{_table([head, ['-' * len(name) for name in head], *replicas])}"


def _replica_row(replica: Mapping[str, Any]) -> list[str]:
    ended = replica.get("exit_code")
    if ended is None and replica.get("signal") is not None:
        ended = f"signal {replica['signal']}"
    memory = replica.get("peak_memory_bytes")
    return [
        f"{replica['group']}-{replica['index']}",
        _text(ended),
        _text(replica.get("reason")),
        _text(replica.get("restarts")),
        "-" if memory is None else f"{memory / 2**20:.0f} MiB",
    ]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line}".rstrip() for line in lines)
