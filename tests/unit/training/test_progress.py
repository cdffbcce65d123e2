"""What a training reports by a call: a line that whoever waits for the job can read, or an error that helps."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from airflow_trainer_provider.job.progress.report import Report, read_json_line
from airflow_trainer_provider.training import report


class Tensor:
    """Stands for a tensor: Python can make a number of it where it has one element."""

    def __init__(self, *values):
        self.values = values

    def __float__(self):
        if len(self.values) != 1:
            raise RuntimeError(f"a Tensor with {len(self.values)} elements cannot be converted to Scalar")
        return self.values[0]


class Count:
    """Stands for a whole number of another library."""

    def __index__(self):
        return 7


@pytest.fixture(autouse=True)
def no_ranks(monkeypatch):
    monkeypatch.delenv("TRAINER_RANK_VARIABLES", raising=False)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, Report()),
        ({"step": 0}, Report(step=0)),
        ({"step": Count(), "total_steps": 10**15}, Report(step=7, total_steps=10**15)),
        ({"metrics": {"loss": Tensor(0.25), "eval/f1@5": 1}}, Report(metrics={"loss": 0.25, "eval/f1@5": 1.0})),
        ({"metrics": {}}, Report()),
        ({"metrics": {"a": math.inf, "b": -math.inf}}, Report(metrics={"a": math.inf, "b": -math.inf})),
        ({"checkpoint": Path("/c/é")}, Report(checkpoint={"step": None, "path": "/c/é"})),
        (
            {"metrics": {f"m{at:02}{'x' * 61}": -math.pi / 10**300 for at in range(32)}},
            Report(metrics={f"m{at:02}{'x' * 61}": -math.pi / 10**300 for at in range(32)}),
        ),
    ],
)
def test_what_is_reported_is_read(given, read, capfd):
    report(**given)

    out = capfd.readouterr().out
    assert (out.count("\n"), out[-1]) == (1, "\n")
    assert read_json_line(out) == read


def test_nan_is_a_value(capfd):
    report(metrics={"loss": math.nan})

    assert math.isnan(read_json_line(capfd.readouterr().out).metrics["loss"])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"step": 1.5}, "step: got 1.5; allowed: a whole number from 0 to 1000000000000000. Pass int(step)."),
        ({"step": "1"}, "step: got '1'"),
        ({"step": True}, "step: got True"),
        ({"step": -1}, "step: got -1"),
        ({"total_steps": 0}, "total_steps: got 0; allowed: a whole number from 1 to"),
        ({"total_steps": 10**15 + 1}, "total_steps: got 1000000000000001"),
        ({"metrics": [("loss", 1)]}, "metrics: got list; allowed: a dict. Write metrics="),
        ({"metrics": {f"m{at}": 1 for at in range(33)}}, "metrics: got 33 metrics; allowed: at most 32"),
        ({"metrics": {"1st": 1}}, "metrics: got the name '1st'; allowed: a letter and then"),
        ({"metrics": {3: 1}}, "metrics: got the name 3"),
        ({"metrics": {"x" * 65: 1}}, "metrics: got the name 'xxx"),
        (
            {"metrics": {"loss": "0.5"}},
            "metrics['loss']: got a value of type str; allowed: one number. Pass",
        ),
        ({"metrics": {"loss": True}}, "metrics['loss']: got a value of type bool"),
        ({"metrics": {"loss": None}}, "metrics['loss']: got a value of type NoneType"),
        ({"metrics": {"loss": Tensor(1, 2)}}, "metrics['loss']: got a value of type Tensor"),
        ({"metrics": {"loss": 10**400}}, "metrics['loss']: got a value of type int"),
        ({"checkpoint": 5}, "checkpoint: got a value of type int"),
        ({"checkpoint": "x" * 4096}, "the report: got 4146 characters; allowed: at most 4096 as JSON"),
    ],
)
def test_what_cannot_be_reported_is_an_error_on_each_rank(given, error, capfd, monkeypatch):
    monkeypatch.setenv("TRAINER_RANK_VARIABLES", "RANK")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(ValueError, match=f"^{re.escape(error)}"):
            report(**given)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("env", "prints"),
    [({}, True), ({"RANK": "0"}, True), ({"RANK": "1"}, False), ({"PMI_RANK": "1"}, False), ({"OTHER": "1"}, True)],
)
def test_rank_0_alone_prints(env, prints, capfd, monkeypatch):
    monkeypatch.setenv("TRAINER_RANK_VARIABLES", "RANK,PMI_RANK")
    for name in ("RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    report(step=1)

    assert bool(capfd.readouterr().out) == prints
