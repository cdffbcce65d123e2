"""Reading reports from lines: a JSON line, or regular expressions."""

from __future__ import annotations

import json
import math

import pytest

from airflow_trainer_provider.job.progress import report as module
from airflow_trainer_provider.job.progress.report import Malformed, Patterns, Report, read_json_line

WHOLE = (
    '{"trainer_progress": {"step": 6560, "total_steps": 20000, "metrics": {"loss": 1.965}, '
    '"checkpoint": {"step": 6400, "path": "s3://b/6400"}}}'
)


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "2026-11-21 14:00:00 INFO {rank 0} ", '{"a": 1, ', "[a] "])
def test_a_json_line_is_found_behind_what_a_launcher_puts_before_it(prefix):
    line = prefix + (WHOLE[1:] if prefix.endswith(", ") else WHOLE)

    assert read_json_line(f"{line} and more") == Report(
        step=6560, total_steps=20000, metrics={"loss": 1.965}, checkpoint={"step": 6400, "path": "s3://b/6400"}
    )


@pytest.mark.parametrize(
    "line",
    [
        '{"host": {"a": 1}, "trainer_progress": {"step": 1}}',
        '{"msg": "a { b", "trainer_progress": {"step": 1}}',
        "{} {" + '"a": {}, ' * 6 + '"trainer_progress": {"step": 1}}',
    ],
)
def test_other_objects_may_stand_before_the_key(line):
    assert read_json_line(line) == Report(step=1)


@pytest.mark.parametrize("text", ["", "loss=1", "trainer_progress", "{'trainer_progress': {}}"])
def test_other_lines_are_no_reports(text):
    assert read_json_line(text) is None


def test_all_keys_are_optional_and_numbers_may_not_be_finite():
    assert read_json_line('{"trainer_progress": {}}') == Report()
    line = '{"trainer_progress": {"percent": 12.5, "remaining_seconds": 60}}'
    assert read_json_line(line) == Report(percent=12.5, remaining_seconds=60)
    found = read_json_line('{"trainer_progress": {"metrics": {"a": NaN, "b": -Infinity, "c": "Infinity", "d": 1e999}}}')
    assert found is not None
    assert math.isnan(found.metrics["a"])
    assert [found.metrics[name] for name in "bcd"] == [-math.inf, math.inf, math.inf]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('"trainer_progress": {"step": 1}', "stands in no JSON object"),
        ('{"k": "trainer_progress"}', "stands in no JSON object"),
        ('found {} in "trainer_progress"', "stands in no JSON object"),
        ("{" + '"a": {}, ' * 8 + '"trainer_progress": {}}', "stands in no JSON object"),
        ('{"trainer_progress": {"step": 1}', "it is no JSON"),
        ('{"host": {x}, "trainer_progress": {', "it is no JSON"),
        ('{"trainer_progress": 5}', "trainer_progress is no JSON object"),
        ('{"trainer_progress": {"step": "1"}}', "step is no number"),
        ('{"trainer_progress": {"step": true}}', "step is no number"),
        ('{"trainer_progress": {"step": 1.5}}', "step is no whole number from 0 on"),
        ('{"trainer_progress": {"step": -1}}', "step is no whole number from 0 on"),
        ('{"trainer_progress": {"step": NaN}}', "step is no whole number from 0 on"),
        ('{"trainer_progress": {"total_steps": 0}}', "total_steps is no whole number from 1 on"),
        ('{"trainer_progress": {"percent": 101}}', "percent is no number from 0 to 100"),
        ('{"trainer_progress": {"percent": NaN}}', "percent is no number from 0 to 100"),
        ('{"trainer_progress": {"percent": "5"}}', "percent is no number"),
        ('{"trainer_progress": {"remaining_seconds": -1}}', "remaining_seconds is no number from 0 to"),
        ('{"trainer_progress": {"remaining_seconds": Infinity}}', "remaining_seconds is no number from 0 to"),
        ('{"trainer_progress": {"metrics": [1]}}', "metrics is no JSON object"),
        ('{"trainer_progress": {"metrics": {"1a": 1}}}', "'1a' is no name of a metric"),
        ('{"trainer_progress": {"metrics": {"a": null}}}', "a is no number"),
        ('{"trainer_progress": {"metrics": {"a": 1' + "0" * 400 + "}}}", "a is too large a number"),
        ('{"trainer_progress": {"checkpoint": {"path": 1}}}', "the path of a checkpoint has to be text"),
        ('{"trainer_progress": {"x": "' + "x" * 4096 + '"}}', "longer than 4096 characters"),
        ('{"trainer_progress": ' + "[" * 3000, "it is no JSON"),
        (
            '{"trainer_progress": {"metrics": {' + ", ".join(f'"a{at}": 1' for at in range(33)) + "}}}",
            "it has 33 metrics, and at most 32 are kept",
        ),
    ],
)
def test_what_cannot_be_read_says_why(line, why):
    with pytest.raises(Malformed, match=why):
        read_json_line(line)


def test_expressions_read_an_unchanged_script():
    patterns = Patterns({"step": r"(\d+)/\d+", "total_steps": r"\d+/(\d+)", "loss": r"loss=(?P<value>\S+?)(,|$)"})

    assert patterns.read("é 12/100 loss=0.25, lr=1") == Report(step=12, total_steps=100, metrics={"loss": 0.25})
    assert patterns.read("saved") is None
    assert Patterns({}).read("loss=1") is None
    found = patterns.read("loss=nan")
    assert found is not None
    assert math.isnan(found.metrics["loss"])
    with pytest.raises(Malformed, match="the expression for loss has found 'high', which is no number"):
        patterns.read("loss=high")


def test_expressions_that_take_long_are_dropped(monkeypatch):
    monkeypatch.setattr(module, "_SLOW_SECONDS", -1)
    patterns = Patterns({"loss": r"loss=(\d)"})

    assert patterns.read("loss=1")
    assert patterns.read("loss=1")
    with pytest.raises(Malformed, match="take too long"):
        patterns.read("loss=1")
    assert patterns.read("loss=1") is None


def test_the_end_of_a_long_line_is_not_searched():
    assert Patterns({"loss": r"loss=(\d)"}).read("x" * 3000 + " loss=1") is None


def test_the_path_of_a_checkpoint_is_cut_and_can_be_stored():
    path = "a\x00" + "b" * 2000

    found = read_json_line(json.dumps({"trainer_progress": {"checkpoint": {"path": path}}}))

    assert found == Report(checkpoint={"step": None, "path": "a\ufffd" + "b" * 1022})
