"""Whatever pods, nodes, the watch, the API server and readers do: each line once or named as missing, and an end."""

from __future__ import annotations

import logging

import pytest

from airflow_trainer_provider.cluster.logs import follow, job_logs
from airflow_trainer_provider.cluster.logs.streams import LogStreams
from tests.fakes.virtual_time import run_virtual
from tests.scale import FULL
from tests.unit.cluster.logs.storm.checks import Check
from tests.unit.cluster.logs.storm.plan import Plan
from tests.unit.cluster.logs.storm.storm import run

#: Storms of a test, and tests.
_STORMS = 25
_TESTS = 400 if FULL else 8
#: More than any of them takes, in virtual seconds.
_MOST = 100_000


class _Watch:
    """The watch of the pods, as readers subscribe to it."""

    def __init__(self, cluster, kind, namespace):
        self._store = cluster.nodes.store

    def subscribe(self, name):
        return self._store.subscribe(name)


@pytest.mark.parametrize("number", range(_TESTS))
def test_each_line_is_shown_once_or_named_as_missing_and_the_wait_ends(monkeypatch, caplog, number):
    monkeypatch.setattr(follow, "pods_watch", _Watch)
    caplog.set_level(logging.ERROR)
    for seed in range(number * _STORMS, (number + 1) * _STORMS):
        plan = Plan(seed)
        monkeypatch.setattr(LogStreams, "limit", plan.limit)
        monkeypatch.setattr(job_logs, "_WAITING_BLOCKS", plan.waiting)
        try:
            nodes = run_virtual(run(plan), seed=seed, seconds=_MOST)
            for job in plan.jobs:
                Check(plan, nodes, job).all()
        except AssertionError as error:
            raise AssertionError(f"in the storm of seed {seed}: {error}") from error
        assert not caplog.records, f"in the storm of seed {seed}: {caplog.text}"
