"""The events of triggers: whatever is in them, Airflow stores them."""

from __future__ import annotations

import json

import pytest

from airflow_trainer_provider.hooks.found_jobs import FoundJobs
from airflow_trainer_provider.triggers.found_jobs import FoundJobsTrigger
from airflow_trainer_provider.triggers.payload import event_of


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_what_no_database_stores_is_replaced(text):
    event = event_of({"end": "error", "message": text, "kwargs": {"job": {text: [text]}}})

    stored = json.dumps(event.payload)
    assert "\\u0000" not in stored
    assert "\\ud800" not in stored
    assert event.payload["end"] == "error"


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
