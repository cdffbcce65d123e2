"""What a script reports is in XCom while its task waits, in a worker and in a triggerer that is killed on the way."""

from __future__ import annotations

import json

import pytest

from tools.airflow_runner.api import TIMEOUT, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.local]


def reported(airflow, dag_id, run, beyond=0):
    """The progress in XCom, once it is beyond a step."""

    def probe():
        progress = airflow.xcom(dag_id, run, "train", "progress")
        return progress if progress and progress["step"] > beyond else None

    # The first request to Airflow from a triggerer takes it some seconds.
    return wait_until(probe, TIMEOUT, lambda: f"{airflow.xcom(dag_id, run, 'train', 'progress')}"[:300])


@pytest.mark.parametrize("dag_id", ["train_waiting", pytest.param("train_deferred", marks=pytest.mark.slow)])
def test_progress_is_in_xcom_while_the_task_waits(airflow, folder, dag_id):
    run = airflow.trigger_dag(dag_id, {"folder": str(folder), "mode": "train"})
    folder.wait_for_training()
    first = reported(airflow, dag_id, run)
    status = wait_until(lambda: airflow.xcom(dag_id, run, "train", "status"), TIMEOUT, lambda: "no status in XCom")
    if dag_id == "train_deferred":
        airflow.kill("triggerer")
        airflow.restart("triggerer")
    second = reported(airflow, dag_id, run, beyond=first["step"])
    folder.go()
    assert airflow.wait_for_run(dag_id, run) == "success"

    last, summary = airflow.xcom(dag_id, run, "train", "progress"), airflow.xcom(dag_id, run, "train")
    assert first["step"] < second["step"] <= last["step"]
    # No restart, and no report twice or never.
    assert (last["attempt"], last["restarts"]) == (0, [])
    [losses] = last["history"]["loss"]
    assert losses["step"] == list(range(0, last["step"] + 1, 10))
    assert losses["value"] == [pytest.approx(1 / (step + 1), rel=1e-6) for step in losses["step"]]
    # Ten, as long as neither the script nor who reads its lines is stalled.
    assert 0.5 < last["steps_per_second"] < 100
    assert summary["progress"]["step"] == last["step"]
    assert "history" not in summary["progress"]
    # The result's own metrics win.
    assert summary["metrics"]["loss"] == 0.5
    assert status["phase"] in ("starting", "running")
    ended = airflow.xcom(dag_id, run, "train", "status")
    assert ended["phase"] == "succeeded"
    assert [replica["name"] for replica in ended["replicas"]] == ["master-0", "worker-0"]
    assert all("running" in [segment[0] for segment in replica["segments"]] for replica in ended["replicas"])
    json.dumps(last, allow_nan=False)
