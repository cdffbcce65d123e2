"""One report of a script: a JSON line, or what regular expressions find in a line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_trainer_provider.spec.running.metrics import STEP, TOTAL_STEPS, compiled, is_metric_name
from airflow_trainer_provider.text.numbers import NOT_FINITE
from airflow_trainer_provider.text.storable import storable_text
from airflow_trainer_provider.training.progress import KEY, MOST_CHARACTERS, MOST_METRICS, MOST_STEPS

#: Only a line that contains this is parsed as a report.
_MARKER = f'"{KEY}"'
#: How many braces before the marker are tried as the beginning of the object.
_MOST_BRACES = 8
#: How many characters of a line the regular expressions search.
_SEARCHED = 2048
_MOST_PATH = 1024
#: Processor time of the expressions for one line, in seconds, and how many lines may take longer.
_SLOW_SECONDS = 0.02
_MOST_SLOW = 3


class Malformed(ValueError):
    """A report cannot be read; the text says why."""


@dataclass(frozen=True)
class Report:
    """What a script reports at one time. A field that it does not report is None, or an empty mapping.

    :param step: how many steps are done.
    :param total_steps: how many there are.
    :param percent: of the work that is done, where there are no steps.
    :param remaining_seconds: until the end, as the script estimates it.
    :param metrics: by name; values may be infinite or NaN.
    :param checkpoint: the last one: its ``step`` and ``path``.
    :param resumed_from: the checkpoint from which the training has begun, likewise.
    """

    step: int | None = None
    total_steps: int | None = None
    percent: float | None = None
    remaining_seconds: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] | None = None
    resumed_from: Mapping[str, Any] | None = None


def read_json_line(text: str) -> Report | None:
    """The report in a line that contains one; None for any other line.

    :param text: of the line, whatever a launcher has put before the report.
    :raises Malformed: it has the marker of a report, but cannot be read.
    """
    at = text.find(_MARKER)
    if at < 0:
        return None
    begin, failures = at, []
    # From the nearest brace outwards: other objects, and text with a brace in it, may come before the key.
    for _ in range(_MOST_BRACES):
        begin = text.rfind("{", 0, begin)
        if begin < 0:
            break
        try:
            value, _ = json.JSONDecoder().raw_decode(text[begin : begin + MOST_CHARACTERS])
        except (ValueError, RecursionError) as error:
            is_cut = len(text) - begin > MOST_CHARACTERS
            too_long = f"the JSON object is longer than {MOST_CHARACTERS} characters"
            failures.append(too_long if is_cut else f"it is no JSON: {error}")
            continue
        if KEY in value:
            return _report(_mapping(KEY, value[KEY]))
    raise Malformed(failures[0] if failures else f"{_MARKER} stands in no JSON object")


class Patterns:
    """The regular expressions of one job.

    :param metrics: name -> expression, as the spec has them.
    """

    def __init__(self, metrics: Mapping[str, str]) -> None:
        self._expressions = {name: compiled(text) for name, text in metrics.items()}
        self._slow = 0

    def read(self, text: str) -> Report | None:
        """What the expressions find in a line; None for nothing.

        :param text: of the line.
        :raises Malformed: a match is not a number, or the expressions take too long.
        """
        if not self._expressions:
            return None
        began = time.thread_time()
        line = text[:_SEARCHED].encode()
        found = {name: value for name, each in self._expressions.items() if (value := each.find(line)) is not None}
        if time.thread_time() - began > _SLOW_SECONDS:
            self._note_slow()
        if not found:
            return None
        numbers = {name: _parsed(name, value) for name, value in found.items()}
        step, total = numbers.pop(STEP, None), numbers.pop(TOTAL_STEPS, None)
        return Report(whole_steps(STEP, step), whole_steps(TOTAL_STEPS, total, least=1), metrics=numbers)

    def _note_slow(self) -> None:
        self._slow += 1
        if self._slow >= _MOST_SLOW:
            # Meanwhile the event loop is blocked, and with it all other jobs that wait in it.
            self._expressions = {}
            raise Malformed("the regular expressions take too long for a line, and are not used any more")


def _report(value: Mapping[str, Any]) -> Report:
    metrics = _mapping("metrics", value.get("metrics") or {})
    if len(metrics) > MOST_METRICS:
        raise Malformed(f"it has {len(metrics)} metrics, and at most {MOST_METRICS} are kept")
    wrong = next((name for name in metrics if not is_metric_name(name)), None)
    if wrong is not None:
        raise Malformed(f"{wrong[:64]!r} is no name of a metric")
    return Report(
        step=whole_steps(STEP, value.get(STEP)),
        total_steps=whole_steps(TOTAL_STEPS, value.get(TOTAL_STEPS), least=1),
        percent=_up_to("percent", value.get("percent"), 100),
        remaining_seconds=_up_to("remaining_seconds", value.get("remaining_seconds"), sys.float_info.max),
        metrics={name: _number(name, number) for name, number in metrics.items()},
        checkpoint=_checkpoint("checkpoint", value),
        resumed_from=_checkpoint("resumed_from", value),
    )


def _checkpoint(name: str, value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    given = value.get(name)
    if given is None:
        return None
    found = _mapping(name, given)
    path = found.get("path")
    if path is not None and not isinstance(path, str):
        raise Malformed("the path of a checkpoint has to be text")
    return {"step": whole_steps(f"{name}.step", found.get("step")), "path": path and storable_text(path[:_MOST_PATH])}


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Malformed(f"{name} is no JSON object")
    return value


def whole_steps(name: str, value: Any, least: int = 0) -> int | None:
    """A number of steps; None for None.

    :param name: of the value.
    :param value: from JSON, or from an expression.
    :param least: the smallest that it may be.
    :raises Malformed: it is not such a number.
    """
    if value is None:
        return None
    number = _number(name, value)
    if not least <= number <= MOST_STEPS or number != int(number):
        raise Malformed(f"{name} is no whole number from {least} on")
    return int(number)


def _up_to(name: str, value: Any, most: float) -> float | None:
    if value is None:
        return None
    number = _number(name, value)
    if not 0 <= number <= most:
        raise Malformed(f"{name} is no number from 0 to {most:g}")
    return number


def _number(name: str, value: Any) -> float:
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Malformed(f"{name} is no number")
    try:
        return float(value)
    except OverflowError:
        raise Malformed(f"{name} is too large a number") from None


def _parsed(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Malformed(f"the expression for {name} has found {text[:64]!r}, which is no number") from None
