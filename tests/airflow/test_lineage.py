"""What a real Airflow sends of jobs: StatsD lines over UDP, OpenLineage's events, asset events and links."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.airflow.jobs import job_processes
from tools.airflow_runner import AirflowInstance
from tools.airflow_runner.api import TIMEOUT, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local, pytest.mark.slow]

DAGS = Path(__file__).parent / "lineage_dags"
#: What OpenLineage 2-0-2 requires of a run event and of its parts: https://openlineage.io/spec/2-0-2/OpenLineage.json
FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {
            "_producer": {"type": "string", "format": "uri"},
            "_schemaURL": {"type": "string", "format": "uri"},
        },
    },
}
DATASETS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {"namespace": {"type": "string"}, "name": {"type": "string"}, "facets": FACETS},
    },
}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {
            "type": "string",
            "format": "uri",
            "pattern": r"OpenLineage\.json#/(\$defs|definitions)/RunEvent$",
        },
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": FACETS},
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {"namespace": {"type": "string"}, "name": {"type": "string"}, "facets": FACETS},
        },
        "inputs": DATASETS,
        "outputs": DATASETS,
    },
}

_TIMERS = ("queue_seconds", "run_seconds")


class StatsdListener:
    """Keeps the lines that reach a UDP port of this machine."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._lines: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while data := self._socket.recv(65536):
            self._lines += data.decode().splitlines()

    def lines(self, metric: str, dag_id: str) -> list[str]:
        """The lines of a metric of ours that have come of a DAG's tasks."""
        return [line for line in self._lines if line.startswith(f"airflow.trainer.{metric},") and dag_id in line]

    def close(self) -> None:
        """Stop listening."""
        self._socket.sendto(b"", self._socket.getsockname())


@pytest.fixture(scope="module")
def statsd() -> Iterator[StatsdListener]:
    listener = StatsdListener()
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, statsd: StatsdListener) -> Iterator[AirflowInstance]:
    """An Airflow of its own: events of OpenLineage slow each task down."""
    home = tmp_path_factory.mktemp("lineage") / "home"
    transport = {"type": "file", "log_file_path": str(home.with_name("events")), "append": True}
    config = {
        "metrics": {
            "statsd_on": "True",
            "statsd_host": "127.0.0.1",
            "statsd_port": str(statsd.port),
            "statsd_influxdb_enabled": "True",
        },
        "openlineage": {"transport": json.dumps(transport), "namespace": "tests"},
    }
    with AirflowInstance(home, [DAGS], config=config) as instance:
        yield instance


@pytest.fixture(params=["lineage_waiting", "lineage_deferred"])
def dag_id(request):
    return request.param


def _events(airflow, dag_id, kind):
    """The events of a task, checked."""

    def found():
        lines = airflow.home.with_name("events").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return [
            each for each in events if each["job"]["name"] == f"{dag_id}.train" and each["eventType"] == kind
        ] or None

    events = wait_until(found, TIMEOUT, lambda: f"no event {kind} of {dag_id}")
    for event in events:
        jsonschema.validate(event, RUN_EVENT, format_checker=jsonschema.FormatChecker())
    return events


def _line(statsd, name, dag_id):
    """The one line of a metric, which may come some time after the end of the run."""
    (line,) = wait_until(lambda: statsd.lines(name, dag_id) or None, TIMEOUT, lambda: f"no line of trainer.{name}")
    return line


def _links(airflow, dag_id, run):
    return airflow.request("GET", f"/dags/{dag_id}/dagRuns/{run}/taskInstances/train/links")["extra_links"]


def _tags(dag_id):
    return {f"dag_id={dag_id}", "task_id=train", "framework=pytorch", "backend=local"}


def test_a_job_that_succeeded_is_in_statsd_openlineage_and_the_asset(airflow, statsd, dag_id, folder):
    run = airflow.trigger_dag(dag_id, {"folder": str(folder)})
    folder.wait_for_training()
    folder.go()
    assert airflow.wait_for_run(dag_id, run) == "success"
    summary = airflow.xcom(dag_id, run, "train")

    lines = {name: _line(statsd, name, dag_id) for name in ("jobs.succeeded", "restarts", *_TIMERS)}
    time.sleep(1)  # for second ones, which must not come
    for name, line in lines.items():
        assert statsd.lines(name, dag_id) == [line]
    assert set(lines["jobs.succeeded"].partition(":")[0].split(",")[1:]) == _tags(dag_id)
    assert lines["jobs.succeeded"].endswith(":1|c")
    assert lines["restarts"].endswith(":0|c")
    for name in _TIMERS:
        line = lines[name]
        sent = re.search(r":([\d.]+)\|ms$", line)
        assert sent
        assert float(sent[1]) == pytest.approx(1000 * summary[name])

    (event,) = _events(airflow, dag_id, "COMPLETE")
    facet = event["run"]["facets"]["trainer_job"]
    assert facet["_schemaURL"].endswith("/RunFacet")
    assert "verdict" not in facet
    assert {name: facet[name] for name in ("job", "framework", "backend", "phase", "replicas", "metrics")} == {
        "job": summary["name"],
        "framework": "pytorch",
        "backend": "local",
        "phase": "succeeded",
        "replicas": 2,
        "metrics": {"loss": 0.5},
    }
    assert (facet["queueSeconds"], facet["runSeconds"]) == (summary["queue_seconds"], summary["run_seconds"])
    assert [(each["namespace"], each["name"]) for each in event["inputs"]] == [("s3://bucket", "data")]
    # The asset too, where Airflow's provider has a converter for its scheme.
    assert ("s3://bucket", "model") in [(each["namespace"], each["name"]) for each in event["outputs"]]

    asset_events = airflow.request("GET", "/assets/events", params={"source_dag_id": dag_id})["asset_events"]
    (extra,) = [each["extra"] for each in asset_events if each["source_run_id"] == run]
    # The hook of the task has set one key before.
    assert extra["job"] == "set by the task"
    assert (extra["framework"], extra["metrics"]) == ("pytorch", {"loss": 0.5})
    assert extra["result"] == summary["result"]

    links = _links(airflow, dag_id, run)
    assert links["MLflow run"] == "https://mlflow.example/#/experiments/1/runs/0a"
    assert not links["Kubernetes dashboard"]


def test_a_job_that_failed_is_counted_and_its_verdict_is_in_openlineage(airflow, statsd, dag_id, folder):
    run = airflow.trigger_dag(dag_id, {"folder": str(folder), "mode": "raise"})
    assert airflow.wait_for_run(dag_id, run) == "failed"

    counted = _line(statsd, "jobs.failed", dag_id)
    assert set(counted.partition(":")[0].split(",")[1:]) == _tags(dag_id)
    (event,) = _events(airflow, dag_id, "FAIL")
    facet = event["run"]["facets"]["trainer_job"]
    assert (facet["phase"], facet["replicas"], facet["framework"]) == ("failed", 2, "pytorch")
    assert facet["runSeconds"] > 0
    verdict = facet["verdict"]
    assert (verdict["replica"], verdict["rank"], verdict["exitCode"]) == ("worker-0", 1, 1)
    assert "ValueError: rank 1 has had enough" in verdict["message"]
    assert not _links(airflow, dag_id, run)["MLflow run"]
    assert job_processes() == []
