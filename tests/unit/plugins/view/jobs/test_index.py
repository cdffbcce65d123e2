"""The index of the jobs holds few threads of the API server, whatever the database does."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.plugins.view.jobs import index as module
from airflow_trainer_provider.plugins.view.jobs.index import JobIndex, Unread

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


class Database:
    """One that is slow while its event is clear, and then fails or has no jobs."""

    def __init__(self):
        self.asked, self.fails = 0, False
        self.answers, self.is_asked = threading.Event(), threading.Event()
        self.answers.set()

    def __call__(self, *question):
        self.asked += 1
        self.is_asked.set()
        assert self.answers.wait(30)
        if self.fails:
            raise OSError("the database is away")
        return {}


@pytest.fixture
def database(monkeypatch):
    found = Database()
    monkeypatch.setattr(module, "read_versions", found)
    return found


def outcome(index):
    try:
        return index.entries(NOW)
    except Unread:
        return None


def test_a_failure_is_not_repeated_by_each_that_waits(database, caplog):
    database.fails = True
    database.answers.clear()
    index = JobIndex()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(outcome, index) for _ in range(8)]
        assert database.is_asked.wait(30)
        database.answers.set()

    assert [each.result() for each in asked] == [None] * 8
    assert database.asked == 1
    assert caplog.messages == ["The training jobs could not be read"]


def test_while_the_database_is_slow_the_jobs_are_the_previous_ones(database, monkeypatch):
    monkeypatch.setattr(module, "KEPT_SECONDS", -1.0)
    index = JobIndex()
    assert outcome(index) == []
    database.answers.clear()
    database.is_asked.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(outcome, index)
        assert database.is_asked.wait(30)

        assert outcome(index) == []
        monkeypatch.setattr(module, "OLD_SECONDS", -1.0)
        assert outcome(index) is None
        assert not slow.done()
        database.answers.set()
    assert database.asked == 2


def test_before_the_first_answer_a_request_waits_for_a_bounded_time(database, monkeypatch):
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.05)
    database.answers.clear()
    index = JobIndex()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(outcome, index)
        assert database.is_asked.wait(30)
        began = time.monotonic()

        assert outcome(index) is None
        assert time.monotonic() - began >= 0.05
        assert not first.done()
        database.answers.set()
        assert first.result() == []
