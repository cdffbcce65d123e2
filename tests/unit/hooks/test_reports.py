"""Reports go to XCom, and the next process goes on from them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder
from airflow.sdk.execution_time.supervisor import WatchedSubprocess

from airflow_trainer_provider.hooks import reports as module
from airflow_trainer_provider.hooks.reports import Reports
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.progress import reporter as progress
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus

HANDLE = JobHandle(name="j", uid="u", backend="b", framework="f", leader="worker-0", owner=1, location="/l")
IDENTITY = Identity(dag_id="d", run_id="r", task_id="t", map_index=3)
PLACE = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": 3}


class Airflow:
    """The XComs of one task, and a supervisor that takes some time."""

    def __init__(self):
        self.values, self.calls, self.error = {}, [], None

    def set(self, *, key, value, **place):
        assert place == PLACE
        assert threading.current_thread() is not threading.main_thread()
        self.calls.append((key, time.monotonic()))
        self.values[key] = value

    def get(self, *, key, **place):
        assert place == PLACE
        if self.error:
            raise self.error
        return self.values.get(key)


@pytest.fixture
def airflow(monkeypatch):
    found = Airflow()
    monkeypatch.setattr("airflow.sdk.bases.xcom.BaseXCom.set", found.set)
    # A custom backend of the deployment, which is neither written nor read.
    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom", None)
    monkeypatch.setattr("airflow.sdk.bases.xcom.BaseXCom.get_one", found.get)
    return found


def step(reporter, number):
    reporter.line(f'x loss=0.5 {{"trainer_progress": {{"step": {number}}}}}', None, (number, 1))


async def test_a_task_reports_and_its_next_waiter_goes_on(airflow):
    reports = Reports(IDENTITY, {"loss": r"loss=(\S+)"})
    first = reports.reporter(HANDLE)
    await first.ready()
    step(first, 7)
    await first.finish()

    assert airflow.values["progress"]["step"] == 7
    assert airflow.values["progress"]["metrics"] == {"loss": 0.5}
    second = reports.reporter(HANDLE)
    await second.ready()
    assert second.since == (7, 1)


async def test_secrets_are_masked(airflow, monkeypatch):
    monkeypatch.setattr(module, "masked", lambda value: {"masked": sorted(value)})
    reporter = Reports(IDENTITY, {}).reporter(HANDLE)
    await reporter.ready()
    step(reporter, 7)
    await reporter.finish()

    assert "checkpoint" in airflow.values["progress"]["masked"]


async def test_what_no_database_stores_is_replaced(airflow):
    reporter = Reports(IDENTITY, {}).reporter(HANDLE)
    await reporter.ready()
    replica = ReplicaStatus(group="worker", index=0, reason="Error", message="a\x00\ud800", exit_code=1)
    queued_at = "2026-01-01T00:00:00Z"
    reporter.status(JobStatus(phase=JobPhase.QUEUED, queued_at=queued_at, message="b\x00", replicas=(replica,)))
    await reporter.finish()

    written = json.dumps(airflow.values["status"])
    assert "ufffd" in written
    assert not any(code in written for code in ("u0000", "ud800"))


async def test_a_last_report_comes_before_what_is_read(airflow, monkeypatch):
    reports, order = Reports(IDENTITY, {}), []
    begun, go_on = threading.Event(), threading.Event()
    reporter = reports.reporter(HANDLE)
    await reporter.ready()
    step(reporter, 7)

    def get(self, keys):
        order.append("read")
        begun.set()
        go_on.wait()
        return {}

    monkeypatch.setattr(Reports, "_get", get)
    monkeypatch.setattr(Reports, "_set", lambda self, values: order.append("last"))
    asked = [asyncio.ensure_future(reports.reporter(HANDLE).ready()) for _ in range(3)]
    await asyncio.to_thread(begun.wait)
    asked.append(asyncio.ensure_future(reporter.finish()))
    await asyncio.sleep(0.05)
    go_on.set()
    await asyncio.gather(*asked)

    assert order == ["read", "last", "read", "read"]


async def test_the_wait_goes_on_where_xcom_cannot_be_read(airflow, caplog, monkeypatch):
    monkeypatch.setattr(progress, "READ_SECONDS", 0.1)
    airflow.error = OSError("no Airflow")

    reporter = Reports(IDENTITY, {}).reporter(HANDLE)
    await reporter.ready()

    assert reporter.since is None
    assert "What was reported of training job j before cannot be read yet: no Airflow" in caplog.text
    await reporter.close()


@pytest.mark.parametrize(
    ("comms", "handles_errors", "status", "written"),
    [
        (CommsDecoder, False, 200, True),
        (CommsDecoder, False, 503, False),
        (CommsDecoder, True, 503, True),
        (object, False, 503, True),
    ],
    ids=["healthy", "away", "later Airflow", "triggerer"],
)
async def test_nothing_is_asked_while_a_request_would_end_the_task(
    airflow, monkeypatch, comms, handles_errors, status, written
):
    monkeypatch.setattr(progress, "READ_SECONDS", 0.1)
    monkeypatch.setattr(progress, "LAST_SECONDS", 60.0 if written else 1.0)
    asked = []

    class Api(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

    def earlier(self):
        return "API server error"

    def later(self):
        return "Unhandled exception while handling task request"

    handle_requests = later if handles_errors else earlier
    monkeypatch.setattr(WatchedSubprocess, "handle_requests", handle_requests)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", object.__new__(comms), raising=False)
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://127.0.0.1:{server.server_port}/")
        reporter = Reports(IDENTITY, {}).reporter(HANDLE)
        await reporter.ready()
        step(reporter, 7)
        await reporter.finish()
        server.shutdown()

    assert ("progress" in airflow.values) is written
    assert set(asked) == ({"/execution/health"} if comms is CommsDecoder and not handles_errors else set())
