"""The example for clusters trains on the backend that is named, and with none named on the one that the cluster has."""

from __future__ import annotations

from functools import partial

import pytest

DAG_ID = "example_kubernetes"
IMAGE = "trainer.test/worker:test"


@pytest.mark.parametrize(
    ("asked", "taken"), [("auto", "trainer"), ("training-operator", "training-operator"), ("native", "native")]
)
def test_the_example_trains(on_cluster, side_by_side, asked, taken):
    side_by_side(partial(train, on_cluster))


def train(on_cluster, asked, taken):
    airflow = on_cluster.airflow
    run = on_cluster.run(DAG_ID, asked, image=IMAGE)

    assert airflow.wait_for_run(DAG_ID, run) == "success", airflow.task_log(DAG_ID, run, "train")
    summary, log = airflow.xcom(DAG_ID, run, "train"), airflow.task_log(DAG_ID, run, "train")
    assert summary["backend"] == taken
    assert summary["result"]["ranks"] == 2
    # An untrained model's loss is about 4.
    assert summary["metrics"]["loss"] < 0.01
    assert ("Backend auto: took trainer: TrainJob is installed" in log) == (asked == "auto")
    for rank in range(2):
        assert f"rank {rank} of 2, epoch 39" in log
