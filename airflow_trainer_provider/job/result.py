"""The result of a job, and the summary that goes into XCom."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.progress.tracker import Tracker
from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.text.mask import Mask
from airflow_trainer_provider.text.storable import storable, storable_text, why_not_storable

#: The variable with the path to which rank 0 writes its result.
RESULT_PATH_VARIABLE = "TRAINER_RESULT_PATH"
#: The maximum size of a result, in bytes. Kubernetes truncates a container's termination message at 4096 bytes without
#: a notice: a message of that length may be incomplete. A result within this limit fits on every backend.
RESULT_LIMIT_BYTES = 4095
#: The variable with the maximum size of a result in bytes, where that is larger.
RESULT_BYTES_VARIABLE = "TRAINER_RESULT_BYTES"
#: The key that marks a result as that of a function; its value is the function's name. Next to it is the value that the
#: function has returned, or why that is missing: JSON may not be able to represent it.
RETURNED_BY = "trainer_function"
#: The maximum size, in bytes, of a function's value as JSON, with that key.
VALUE_LIMIT_BYTES = 256 * 1024
#: The key in a summary for the size of a value that exceeds the limit of a script's result.
RESULT_BYTES = "result_bytes"
#: How a function's result begins.
_OF_FUNCTION = f'{{"{RETURNED_BY}":'.encode()
#: A text or a number in JSON.
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')


@dataclass(frozen=True)
class Result:
    """The result that rank 0 wrote.

    :param value: of a script or a function.
    :param error: why there is no value although something was written.
    :param function: the name of the function that has ended; None where none is known to have been called.
    """

    value: Any = None
    error: str | None = None
    function: str | None = None


def masked_result(content: bytes, mask: Mask) -> bytes:
    """Mask the job's own secrets in its result. Nothing else in it is changed: JSON stays JSON.

    :param content: the file's bytes.
    :param mask: for the job's secrets.
    """
    # A result that is too long is rejected by its length, which must not change.
    if len(content) > _limit_of(content) or not mask:
        return content
    try:
        text = content.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return mask.text(content.decode("utf-8", "replace")).encode() if mask.concerns(content) else content
    return _SCALAR.sub(lambda found: _masked_scalar(found[0], mask), text).encode("utf-8", "surrogatepass")


def _masked_scalar(text: str, mask: Mask) -> str:
    value = json.loads(text) if text.startswith('"') else text
    masked = mask.text(value)
    return text if masked == value else json.dumps(masked, ensure_ascii=False)


def read_result(content: bytes | None) -> Result:
    """Read what rank 0 wrote.

    :param content: the file's bytes; None where rank 0 wrote nothing.
    """
    if content is None or not content.strip():
        return Result()
    way_out = f"Write large results to storage, and only their address to ${RESULT_PATH_VARIABLE}."
    if len(content) > (limit := _limit_of(content)):
        return Result(error=f"the result has more than {limit} bytes, which are the most that are kept. {way_out}")
    try:
        value = json.loads(content, parse_constant=_reject_constant, parse_float=_finite, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        return Result(error=f"the result is not JSON: {error}. Write it with json.dump().")
    function, why_missing = None, None
    if isinstance(value, dict) and isinstance(value.get(RETURNED_BY), str):
        function, why_missing = storable_text(value[RETURNED_BY]), storable(value.get("error"))
        value = value.get("value")
    problem = why_not_storable(value)
    if problem:
        return Result(error=f"the result {problem}. Write it in another form, or to storage.", function=function)
    return Result(value, why_missing, function)


def no_value(function: str, why: str) -> bytes:
    """The content that rank 0 would have written if it had known that its value is not available.

    :param function: the function's name; empty where none is known to have been called.
    :param why: why there is no value.
    """
    return json.dumps({RETURNED_BY: function, "error": why}).encode()


def summarize(
    handle: JobHandle, status: JobStatus, content: bytes | None, tracker: Tracker | None = None
) -> dict[str, Any]:
    """The summary that goes into XCom at a job's end.

    :param handle: the job.
    :param status: its last status.
    :param content: what rank 0 wrote; see :func:`read_result`.
    :param tracker: of the job's progress; None where it was not tracked.
    :return: JSON values; durations are in seconds, times in ISO 8601.
    """
    result = read_result(content)
    progress = tracker.summary() if tracker else None
    summary = {
        "name": handle.name,
        "backend": handle.backend,
        "framework": handle.framework,
        "phase": status.phase.value,
        "metrics": storable({**_reported(status, tracker), **_metrics(result.value)}),
        "result": result.value,
        **({RESULT_BYTES: len(content)} if content and len(content) > RESULT_LIMIT_BYTES and not result.error else {}),
        **({"function": result.function} if result.function else {}),
        **status.model_dump(mode="json", exclude={"phase", "message", "first_failed", "replicas"}),
        **durations(status),
        "replicas": storable([replica.model_dump(mode="json") for replica in status.replicas]),
    }
    return (
        summary
        | ({"progress": storable(progress)} if progress else {})
        | ({"result_error": result.error} if result.error else {})
    )


def without_large_value(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary without a large value, for use next to the value itself; a small value is kept.

    :param summary: as :func:`summarize` returns it.
    """
    return {**summary, **({"result": None} if RESULT_BYTES in summary else {})}


def failed_figures(status: JobStatus, tracker: Tracker | None = None) -> dict[str, Any]:
    """The counts and measurements of a job that did not succeed, with the names that :func:`summarize` uses.

    :param status: its last status.
    :param tracker: of the job's progress; None where it was not tracked.
    """
    return {"restarts": status.restarts, "metrics": storable(_reported(status, tracker)), **durations(status)}


def durations(status: JobStatus) -> dict[str, float | None]:
    """How long a job waited, ran, and took in all, in seconds; None where that is not known.

    :param status: its last status.
    """
    return {
        "queue_seconds": _seconds(status.queued_at, status.started_at),
        "run_seconds": _seconds(status.started_at, status.finished_at),
        "total_seconds": _seconds(status.queued_at, status.finished_at),
    }


def _limit_of(content: bytes) -> int:
    return VALUE_LIMIT_BYTES if content.startswith(_OF_FUNCTION) else RESULT_LIMIT_BYTES


def _reported(status: JobStatus, tracker: Tracker | None) -> dict[str, Any]:
    """The last value of each metric that the training has reported while it ran."""
    return {**(status.progress.metrics if status.progress else {}), **(tracker.metrics if tracker else {})}


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


def _whole(text: str) -> int:
    # Airflow's processes exchange values as MessagePack, which has no larger integers.
    if not -(2**63) <= (value := int(text)) < 2**64:
        raise ValueError(f"{text[:32]} is too large a number")
    return value


def _reject_constant(name: str) -> None:
    # Python writes NaN and Infinity, which no other JSON reader, XCom's included, can read.
    raise ValueError(f"{name} is not a JSON number; write null, or a string")
