"""What the asset events of a task hold of its job."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.operators.records.asset_events import add_to_asset_events

HANDLE = JobHandle(name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="l")
SUCCEEDED = JobOutcome(
    summary={"phase": "succeeded", "metrics": {"loss": 0.5, "odd": float("nan"), "huge": 10**400}, "result": {"auc": 1}}
)
MODEL = Asset("model", uri="s3://bucket/model")


@pytest.fixture
def context():
    ti = SimpleNamespace(task=SimpleNamespace(outlets=[MODEL, AssetAlias("any"), "a table"]))
    return {"ti": ti, "outlet_events": OutletEventAccessors()}


def test_each_asset_gets_the_job_its_metrics_and_its_result(context):
    add_to_asset_events(context, HANDLE, SUCCEEDED)

    # NaN is no JSON value, and no float holds the largest.
    extra = {"job": "j", "framework": "jax", "metrics": {"loss": 0.5}, "result": {"auc": 1}}
    assert context["outlet_events"][MODEL].extra == extra
    assert list(context["outlet_events"]) == [MODEL]


def test_a_large_value_of_a_function_is_not_in_the_event_as_well(context):
    large = {**SUCCEEDED.figures, "result": "x" * 5000, "result_bytes": 5037}

    add_to_asset_events(context, HANDLE, JobOutcome(summary=large))

    assert context["outlet_events"][MODEL].extra["result"] is None


def test_what_is_in_the_event_already_stays(context):
    context["outlet_events"][MODEL].extra = {"metrics": "mine", "version": 3}

    add_to_asset_events(context, HANDLE, SUCCEEDED)

    assert context["outlet_events"][MODEL].extra == {
        "job": "j",
        "framework": "jax",
        "metrics": "mine",
        "result": {"auc": 1},
        "version": 3,
    }


def test_an_asset_that_airflow_does_not_find_fails_nothing(context, monkeypatch, caplog):
    def fail(self, key):
        raise LookupError("no such asset")

    monkeypatch.setattr(OutletEventAccessors, "__getitem__", fail)

    add_to_asset_events(context, HANDLE, SUCCEEDED)

    assert "gets no metrics of training job j: no such asset" in caplog.text


def test_an_outcome_without_metrics_fails_nothing(context, caplog):
    add_to_asset_events(context, HANDLE, JobOutcome(summary={"metrics": None}))

    assert "gets no metrics of training job j" in caplog.text


def test_a_task_without_outlets_asks_for_no_events():
    add_to_asset_events({"ti": SimpleNamespace(task=SimpleNamespace(outlets=[]))}, HANDLE, SUCCEEDED)
