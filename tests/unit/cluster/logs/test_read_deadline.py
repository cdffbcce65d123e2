"""When a log is given up whose job has ended."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.logs import read_deadline as module
from airflow_trainer_provider.cluster.logs.read_deadline import IDLE_SECONDS, LAST_LINES_SECONDS, ReadDeadline


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def deadline(clock):
    return ReadDeadline()


def test_a_log_that_gives_nothing_is_given_up_some_seconds_after_the_jobs_end(clock, deadline):
    clock.passes(3600)

    assert not deadline.has_passed()
    clock.passes(IDLE_SECONDS)
    assert not deadline.has_passed()
    clock.passes(0.1)
    assert deadline.has_passed()


def test_a_log_that_goes_on_is_given_up_later(clock, deadline):
    for _ in range(int(LAST_LINES_SECONDS)):
        assert not deadline.has_passed()
        clock.passes(1.0)
        deadline.extend()
    clock.passes(0.1)

    assert deadline.has_passed()


def test_the_time_in_which_its_reader_is_held_up_does_not_count(clock, deadline):
    assert not deadline.has_passed()
    clock.passes(IDLE_SECONDS - 1)
    with deadline.paused():
        before = deadline.now
        clock.passes(3600)
        assert deadline.now == before
        assert deadline.is_paused
        assert not deadline.has_passed()
    assert not deadline.is_paused
    assert not deadline.has_passed()
    clock.passes(1.1)
    assert deadline.has_passed()


def test_a_reader_that_is_held_up_is_given_up_only_afterwards(clock, deadline):
    assert not deadline.has_passed()
    clock.passes(IDLE_SECONDS + 1)
    with deadline.paused():
        assert not deadline.has_passed()
    assert deadline.has_passed()


def test_the_idle_time_counts_from_a_given_moment_at_the_earliest(clock, deadline):
    clock.passes(100)
    began = deadline.now
    clock.passes(2)
    assert deadline.idle_since(began) == 2
    deadline.extend()
    clock.passes(1)
    assert deadline.idle_since(began) == 1
