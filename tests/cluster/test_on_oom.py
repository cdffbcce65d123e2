"""A task whose job runs out of memory on a real cluster, waiting and deferred, without the rest of Airflow."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

_HOLD = "import time; block = bytearray(120 << 20); time.sleep(2); print(len(block) >> 20, 'MiB held')"


class _TaskInstance(SimpleNamespace):
    def xcom_push(self, key, value):
        self.pushed[key] = value


@pytest.fixture
def context(cluster, monkeypatch, tmp_path):
    extra = {"kube_config_path": str(cluster.kubectl.kubeconfig)}
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps({"conn_type": "kubernetes", "extra": extra}))
    names = {"dag_id": "memory", "run_id": "run", "task_id": "train", "map_index": -1}
    return {"ti": _TaskInstance(**names, try_number=1, max_tries=0, pushed={})}


@pytest.fixture
def task(namespace):
    """Function (whether it is deferred) -> a task whose job needs more than it has at first."""

    def task(how):
        with DAG("memory", schedule=None):
            return TrainJobOperator(
                task_id="train",
                framework="jax",
                backend="native",
                namespace=namespace,
                image="trainer.test/worker:test",
                command=["python3", "-c", _HOLD],
                resources_per_node={"memory": "100Mi"},
                run_policy={"grace_period_seconds": 1, "on_oom": {"factor": 1.5, "max": "1Gi"}},
                deferrable=how == "deferred",
            )

    return task


def _last_event(trigger):
    async def follow():
        return [event async for event in trigger.run()][-1]

    return asyncio.run(follow()).payload


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_job_that_runs_out_of_memory_has_more_within_the_same_try(context, task, how):
    operator = task(how)
    context["ti"].task = operator
    step, kwargs, deferrals = operator.execute, {}, 0
    while True:
        try:
            summary = step(context, **kwargs)
            break
        except TaskDeferred as deferral:
            # Another process goes on with the task, and knows what went through Airflow's database.
            operator, deferrals = task(how), deferrals + 1
            context["ti"].task = operator
            event, given = json.loads(json.dumps([_last_event(deferral.trigger), dict(deferral.kwargs)]))
            step, kwargs = operator.execute_complete, {"event": event, **given}

    assert deferrals == (2 if how == "deferred" else 0)
    (more,) = summary["more_memory"]
    assert (more["replica"], more["before"], more["after"]) == ("worker-0", "100Mi", "150Mi")
    assert summary["name"].endswith("-2")
    assert context["ti"].pushed["request"]["requested"]["memory_bytes"] == 150 << 20
