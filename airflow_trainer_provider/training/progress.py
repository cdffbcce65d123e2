"""Reports the progress of a training as lines in the job's log, which the waiting task reads."""

from __future__ import annotations

import json
import operator
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

#: The key of a report in its line, and the maximum length of the line in characters.
KEY = "trainer_progress"
MOST_CHARACTERS = 4096
#: The maximum number of steps, the maximum number of metrics in a report, and the names that a metric may have.
MOST_STEPS, MOST_METRICS = 10**15, 32
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./:@-]{0,63}")
METRIC_NAMES = "a letter and then at most 63 letters, digits, '_', '.', '/', ':', '@' and '-'"
#: The variable that lists the names of variables with a process's rank; the first of them that is set is used.
RANKS_VARIABLE = "TRAINER_RANK_VARIABLES"


def report(
    *,
    step: int | None = None,
    total_steps: int | None = None,
    metrics: Mapping[str, Any] | None = None,
    checkpoint: str | None = None,
) -> None:
    """Report the progress of the training: print a line on rank 0, and nothing on the other ranks.

    :param step: the number of completed steps.
    :param total_steps: the total number of steps.
    :param metrics: name -> number, or a value that ``float()`` converts, such as a tensor with one element. NaN and
        infinity are allowed. At most 32 metrics, with names of at most 64 letters, digits and ``_./:@-`` that begin
        with a letter.
    :param checkpoint: the path or address of the last checkpoint, which was written at this step.
    :raises ValueError: a value is not allowed; the message has the value, the allowed values and the remedy.
    """
    content = {
        "step": _steps("step", step, 0),
        "total_steps": _steps("total_steps", total_steps, 1),
        "metrics": _metrics({} if metrics is None else metrics),
        "checkpoint": _checkpoint(checkpoint),
    }
    emit({name: value for name, value in content.items() if value is not None})


def emit(content: Mapping[str, Any]) -> None:
    """Print a report on rank 0, as one line and in one write.

    :param content: JSON values.
    :raises ValueError: the line would be longer than the task reads.
    """
    line = json.dumps({KEY: content})
    if len(line) > MOST_CHARACTERS:
        fix = "Report fewer metrics at a time, or write the checkpoint to a shorter path."
        raise _wrong("the report", f"{len(line)} characters", f"at most {MOST_CHARACTERS} as JSON", fix)
    if is_first():
        # Not print(): with unbuffered output it writes the newline separately.
        try:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        except (AttributeError, ValueError):
            # sys.stdout was removed or closed.
            os.write(1, f"{line}\n".encode())


def is_first() -> bool:
    """Whether this process has rank 0. Without a variable with the rank, each process counts as rank 0."""
    names = os.environ.get(RANKS_VARIABLE, "").split(",")
    ranks = [os.environ[name] for name in names if os.environ.get(name)]
    return not ranks or ranks[0] == "0"


def _steps(name: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    allowed = f"a whole number from {least} to {MOST_STEPS}"
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong(name, repr(value), allowed, f"Pass int({name}).") from None
    if isinstance(value, bool) or not least <= number <= MOST_STEPS:
        raise _wrong(name, repr(value), allowed, "Count the steps that are done, or leave it out.")
    return number


def _metrics(metrics: Any) -> dict[str, float] | None:
    if not isinstance(metrics, Mapping):
        raise _wrong("metrics", type(metrics).__name__, "a dict", 'Write metrics={"loss": loss}.')
    if len(metrics) > MOST_METRICS:
        raise _wrong("metrics", f"{len(metrics)} metrics", f"at most {MOST_METRICS}", "Keep those that people look at.")
    return {_name(name): _number(name, value) for name, value in metrics.items()} or None


def _name(name: Any) -> str:
    if not isinstance(name, str) or not METRIC_NAME.fullmatch(name):
        raise _wrong("metrics", f"the name {name!r}", METRIC_NAMES, "Rename it.")
    return name


def _number(name: str, value: Any) -> float:
    try:
        if not isinstance(value, (bool, str, bytes)):
            return float(value)
    except Exception:
        pass
    place = f"metrics[{name!r}]"
    raise _wrong(place, f"a value of type {type(value).__name__}", "one number", "Pass its .item(), or a mean of it.")


def _checkpoint(path: Any) -> dict[str, str] | None:
    if path is None:
        return None
    try:
        return {"path": os.fsdecode(path)}
    except TypeError:
        allowed = "a path, or an address as text"
        raise _wrong("checkpoint", f"a value of type {type(path).__name__}", allowed, "Pass where it is.") from None


def _wrong(name: str, value: str, allowed: str, fix: str) -> ValueError:
    return ValueError(f"{name}: got {value}; allowed: {allowed}. {fix}")
