"""The events of triggers: whatever is in them, Airflow stores them."""

from __future__ import annotations

import random
from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.hooks.found_jobs import FoundJobs
from airflow_trainer_provider.triggers.found_jobs import FoundJobsTrigger
from airflow_trainer_provider.triggers.payload import event_of
from tests.hostile_values import hostile, kept


def test_airflow_stores_an_event_of_any_values():
    seed = random.randrange(2**32)
    source = random.Random(seed)

    for number in range(1000):
        values = {"end": "error", "message": hostile(source), "kwargs": {"job": {"spec": hostile(source)}}}
        event = event_of(values)

        assert kept(dict(event.payload)) == event.payload, f"seed {seed}, value {number}: {values!r}"
        assert event.payload["end"] == "error"


@pytest.mark.parametrize(
    "value", [b"a\x00", datetime(2026, 11, 28, tzinfo=timezone.utc), {1, 2}, object, ValueError("x")]
)
def test_an_object_that_is_no_json_value_is_its_text(value):
    event = event_of({"end": "error", "kwargs": {"job": [value]}})

    assert kept(dict(event.payload)) == {"end": "error", "kwargs": {"job": [str(value).replace("\x00", "\ufffd")]}}


def test_a_long_message_is_cut_and_a_long_result_is_not():
    event = event_of({"message": "x" * 1_000_000, "summary": {"result": "y" * 1_000_000}})

    assert len(event.payload["message"]) < 70_000
    assert event.payload["summary"]["result"] == "y" * 1_000_000


async def test_an_unknown_error_of_a_sensors_trigger_is_its_event(monkeypatch):
    async def wait(self, *_):
        raise KeyError("token=hunter2-hunter2\x00")

    monkeypatch.setattr(FoundJobs, "wait", wait)
    wanted = {"name": "job", "kind": None}
    trigger = FoundJobsTrigger(wanted, ["succeeded"], "kube", "training", None, "2026-11-25T00:00:00+00:00")

    (event,) = [event async for event in trigger.run()]

    assert (event.payload["end"], event.payload["retryable"]) == ("error", True)
    assert event.payload["message"].startswith("KeyError: ")
    assert "hunter2" not in event.payload["message"]
