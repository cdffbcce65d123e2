"""Presets, policies and the form through a real Airflow."""

from __future__ import annotations

import pytest

from tools.airflow_runner.api import AirflowApiError

pytestmark = [pytest.mark.airflow, pytest.mark.local]


def test_a_job_of_a_preset_trains_with_what_a_policy_fills_in(airflow, folder):
    run = airflow.trigger_dag("train_governed", {"folder": str(folder)})
    folder.go()

    assert airflow.wait_for_run("train_governed", run) == "success"
    replicas = airflow.xcom("train_governed", run, "train")["replicas"]
    assert [(row["group"], row["exit_code"]) for row in replicas] == [("master", 0), ("worker", 0)]
    log = airflow.task_log("train_governed", run, "train")
    assert "Fields from preset 'two': framework, launcher, num_workers, run_policy.grace_period_seconds" in log
    assert "small.yaml: env.MODE." in log
    assert "MODE: offline" in airflow.task_instance("train_governed", run, "train")["rendered_fields"]["rendered_job"]


def test_a_job_that_a_policy_does_not_allow_is_refused_and_not_tried_again(airflow, folder):
    run = airflow.trigger_dag("train_governed", {"folder": str(folder), "presets": "two,four"})

    task = airflow.wait_for_task("train_governed", run, "train", frozenset({"failed", "up_for_retry"}))

    assert (task["state"], task["try_number"]) == ("failed", 1)
    log = airflow.task_log("train_governed", run, "train")
    assert "num_workers: got 4; allowed: at most 2. Reason: The machine of the tests is small. (policy " in log
    assert airflow.xcom("train_governed", run, "train", "job") is None
    assert folder.trainings() == []


@pytest.mark.slow
def test_the_form_refuses_what_a_policy_does_not_allow_and_trains(airflow):
    with pytest.raises(AirflowApiError, match="num_workers") as caught:
        airflow.trigger_dag("train_from_form", {"num_workers": 2})
    assert caught.value.status == 400

    run = airflow.trigger_dag("train_from_form", {"num_workers": 1, "rounds": 5, "presets": []})

    assert airflow.wait_for_run("train_from_form", run) == "success"
    trained = airflow.xcom("train_from_form", run, "train")
    assert len(trained["replicas"]) == 2
    assert trained["metrics"]["train_auc"] > 0.9
