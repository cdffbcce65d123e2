"""When a log is given up whose job has ended."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.logs import patience as module
from airflow_trainer_provider.cluster.logs.patience import IDLE_SECONDS, LAST_LINES_SECONDS, Patience


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
def patience(clock):
    return Patience()


def test_a_log_that_gives_nothing_is_given_up_some_seconds_after_the_jobs_end(clock, patience):
    clock.passes(3600)

    assert not patience.is_over()
    clock.passes(IDLE_SECONDS)
    assert not patience.is_over()
    clock.passes(0.1)
    assert patience.is_over()


def test_a_log_that_goes_on_is_given_up_later(clock, patience):
    for _ in range(int(LAST_LINES_SECONDS)):
        assert not patience.is_over()
        clock.passes(1.0)
        patience.went_on()
    clock.passes(0.1)

    assert patience.is_over()


def test_the_time_in_which_its_reader_is_held_up_does_not_count(clock, patience):
    assert not patience.is_over()
    clock.passes(IDLE_SECONDS - 1)
    with patience.held_up():
        clock.passes(3600)
        assert patience.is_held_up
        assert not patience.is_over()
    assert not patience.is_held_up
    assert not patience.is_over()
    clock.passes(1.1)
    assert patience.is_over()


def test_a_reader_that_is_held_up_is_given_up_only_afterwards(clock, patience):
    assert not patience.is_over()
    clock.passes(IDLE_SECONDS + 1)
    with patience.held_up():
        assert not patience.is_over()
    assert patience.is_over()


def test_the_idle_time_counts_from_a_given_moment_at_the_earliest(clock, patience):
    clock.passes(100)
    began = patience.now
    clock.passes(2)
    assert patience.idle_since(began) == 2
    patience.went_on()
    clock.passes(1)
    assert patience.idle_since(began) == 1
