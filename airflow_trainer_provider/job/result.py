"""What a job leaves behind: the row that goes into XCom."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobStatus

#: Where rank 0 writes its result.
RESULT_PATH_VARIABLE = "TRAINER_RESULT_PATH"
#: The most bytes of a result. Kubernetes cuts a container's termination message at 4096 bytes and does not say so: one
#: of that length may be a part. What fits here fits everywhere.
RESULT_LIMIT_BYTES = 4095


def read_result(content: bytes | None) -> tuple[Any, str | None]:
    """Read what rank 0 wrote.

    :param content: the file's bytes; None where rank 0 wrote nothing.
    :return: the result, and why there is none although something was written.
    """
    if content is None or not content.strip():
        return None, None
    way_out = f"Write large results to storage, and only their address to ${RESULT_PATH_VARIABLE}."
    if len(content) > RESULT_LIMIT_BYTES:
        return (
            None,
            f"the result has more than {RESULT_LIMIT_BYTES} bytes, which are the most that are kept. {way_out}",
        )
    try:
        return json.loads(content, parse_constant=_reject_constant, parse_float=_finite), None
    except (ValueError, RecursionError) as error:
        return None, f"the result is not JSON: {error}. Write it with json.dump()."


def summarize(handle: JobHandle, status: JobStatus, content: bytes | None) -> dict[str, Any]:
    """What goes into XCom at a job's end.

    :param handle: the job.
    :param status: its last status.
    :param content: what rank 0 wrote; see :func:`read_result`.
    :return: JSON values; durations are in seconds, times in ISO 8601.
    """
    result, error = read_result(content)
    summary = {
        "name": handle.name,
        "backend": handle.backend,
        "framework": handle.framework,
        "phase": status.phase.value,
        "metrics": {**(status.progress.metrics if status.progress else {}), **_metrics(result)},
        "result": result,
        **status.model_dump(mode="json", exclude={"phase", "message", "first_failed", "replicas"}),
        "queue_seconds": _seconds(status.queued_at, status.started_at),
        "run_seconds": _seconds(status.started_at, status.finished_at),
        "total_seconds": _seconds(status.queued_at, status.finished_at),
        "replicas": [replica.model_dump(mode="json") for replica in status.replicas],
    }
    return summary | ({"result_error": error} if error else {})


def _metrics(result: Any) -> dict[str, float]:
    """The numbers of the result's ``metrics``, where it has such a mapping."""
    metrics = result.get("metrics") if isinstance(result, dict) else None
    if not isinstance(metrics, dict):
        return {}
    return {
        name: value
        for name, value in metrics.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return round((end - start).total_seconds(), 3) if start and end else None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large a number")
    return value


def _reject_constant(name: str) -> None:
    # Python writes NaN and Infinity, which no other JSON reader, XCom's included, can read.
    raise ValueError(f"{name} is not a JSON number; write null, or a string")
