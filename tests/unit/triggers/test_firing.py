"""What a trigger waits for before it fires."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.triggers import firing

TASK = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1)


@pytest.fixture
def waits(monkeypatch):
    """What was waited for, in turn."""
    found = []

    async def sleep(seconds):
        found.append(seconds)

    async def lines_are_written(identity):
        found.append(f"lines of {identity.task_id}")

    monkeypatch.setattr(firing.asyncio, "sleep", sleep)
    monkeypatch.setattr(firing, "lines_are_written", lines_are_written)
    return found


async def test_a_job_that_ends_at_once_wakes_its_task_when_the_worker_is_gone(waits, monkeypatch):
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "7")
    monkeypatch.setenv("AIRFLOW__TRAINER__WORKER_EXIT_SECONDS", "20")

    await firing.ready_to_fire(SimpleNamespace(task_instance=TASK), time.monotonic() - 2)

    assert waits == [pytest.approx(25, abs=1), "lines of train"]


async def test_a_job_that_has_run_for_long_wakes_its_task_as_soon_as_its_lines_are_written(waits):
    await firing.ready_to_fire(SimpleNamespace(task_instance=TASK), time.monotonic() - 60)

    assert waits == [0, "lines of train"]


async def test_where_no_triggerer_runs_the_trigger_it_waits_for_nothing(waits):
    await firing.ready_to_fire(SimpleNamespace(task_instance=None), time.monotonic())

    assert waits == []


async def test_a_wrong_setting_does_not_keep_the_event_that_names_it(waits, monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__WORKER_EXIT_SECONDS", "soon")

    await firing.ready_to_fire(SimpleNamespace(task_instance=TASK), time.monotonic() - 60)

    assert waits == []
