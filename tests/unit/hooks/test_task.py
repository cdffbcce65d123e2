"""What Airflow's answer on the state of a task instance means."""

from __future__ import annotations

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_trainer_provider.hooks.task import has_succeeded, state_if_over
from airflow_trainer_provider.job.identity import Identity

ANSWER = {
    "r": {"train": "running", "wait": "success", "each_0": "running", "each_1": "failed"},
    "another": {"train": "failed"},
}


@pytest.fixture(autouse=True)
def airflow(monkeypatch):
    def get_task_states(*, dag_id, task_ids, run_ids, map_index):
        assert (dag_id, run_ids) == ("d", ["r"])
        return ANSWER

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(get_task_states))


@pytest.mark.parametrize(
    ("task", "state"),
    [
        ({"task_id": "train"}, None),
        ({"task_id": "wait"}, "success"),
        # Of a mapped task, Airflow names each instance.
        ({"task_id": "each", "map_index": 0}, None),
        ({"task_id": "each", "map_index": 1}, "failed"),
        # It was deleted, with its run or its DAG.
        ({"task_id": "gone"}, "removed"),
    ],
)
async def test_a_task_instance_is_over_or_goes_on(task, state):
    identity = Identity(dag_id="d", run_id="r", **task)

    assert await state_if_over(identity) == state
    assert await has_succeeded(identity) is (state == "success")
