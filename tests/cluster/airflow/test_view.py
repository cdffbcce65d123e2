"""The Training tab and the page of all jobs, of tasks that wait for jobs on the cluster: what they show and do."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.airflow.users import log_in
from tests.cluster.airflow.jobs import handle_of, wait_until_gone
from tests.cluster.airflow.test_faults import KUBEFLOW, start
from tools.airflow_runner import AirflowInstance
from tools.airflow_runner.api import wait_until

#: Seconds: what waits for a job writes what has changed at most every ten seconds.
_SHOWN_WITHIN = 180
#: The DAG that takes any field.
_QUEUED = "whole_request"
#: The queue's name, the position in it, and how many wait there.
Place = tuple[Any, ...]


@pytest.mark.parametrize("backend", KUBEFLOW)
def test_a_job_is_suspended_resumed_and_stopped_from_its_tab(on_cluster, new_folder, side_by_side, backend):
    side_by_side(partial(manage, on_cluster, new_folder))


def manage(on_cluster, new_folder, backend):
    airflow = on_cluster.airflow
    with new_folder() as folder, httpx.Client(base_url=airflow.url, timeout=180) as client:
        log_in(client)
        dag_id, run = start(on_cluster, folder, backend, "deferred")
        handle = handle_of(on_cluster, dag_id, run)
        path = f"/trainer/api/tasks/{dag_id}/{quote(run, safe='')}/train/-1"

        def shows(phase: str) -> dict[str, Any]:
            def probe() -> dict[str, Any] | None:
                view = client.get(path).raise_for_status().json()
                return view if view["status"]["phase"] == phase else None

            return wait_until(probe, _SHOWN_WITHIN, lambda: f"not {phase}: {client.get(path).text}")

        def act(action: str) -> None:
            answer = client.post(f"{path}/{action}", json={"uid": handle.uid})
            assert answer.status_code == 202, answer.text

        view = shows("running")
        assert view["actions"]["suspend"]["allowed"]
        assert not view["actions"]["resume"]["allowed"]

        act("suspend")
        view = shows("suspended")
        assert view["actions"]["resume"]["allowed"]
        # The pods are gone, and the task waits on.
        assert airflow.task_instance(dag_id, run, "train")["state"] == "deferred"

        act("resume")
        shows("running")
        act("stop")
        wait_until_gone(on_cluster, handle)
        assert airflow.wait_for_run(dag_id, run) == "failed"
        assert shows("cancelled")["actions"]["stop"]["allowed"] is False
        events = airflow.request("GET", "/eventLogs", params={"dag_id": dag_id, "run_id": run, "limit": 100})
        ours = sorted(each["event"] for each in events["event_logs"] if each["event"].startswith("trainer_"))
        assert ours == ["trainer_resume_job", "trainer_stop_job", "trainer_suspend_job"]


@pytest.fixture
def queued(on_cluster, cluster):
    """A queue with two jobs, both larger than its quota, and the runs with these jobs; the tasks are deferred."""
    airflow, queue = on_cluster.airflow, f"queue-{uuid.uuid4().hex[:6]}"
    local = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": queue}}
    cluster.kubectl.apply([{**local, "spec": {"clusterQueue": "trainer-test"}}], f"--namespace={on_cluster.namespace}")
    fields = {"scheduling": {"queue_name": queue}, "resources_per_node": {"cpu": "1", "memory": "64Mi"}, "volumes": []}
    runs = [on_cluster.run(_QUEUED, "training-operator", **fields) for _ in range(2)]
    handles = {run: handle_of(on_cluster, _QUEUED, run) for run in runs}
    for run in runs:
        airflow.wait_for_task(_QUEUED, run, "train", "deferred")
    yield queue, handles
    for run, handle in handles.items():
        airflow.set_task_state(_QUEUED, run, "train", "failed")
        wait_until_gone(on_cluster, handle)


def test_deferred_tasks_in_a_queue_have_their_positions_in_xcom_and_on_the_page(on_cluster, queued):
    airflow, (queue, handles) = on_cluster.airflow, queued
    with httpx.Client(base_url=airflow.url, timeout=180) as client:
        log_in(client)

        def run_at(*places: Place) -> dict[Place, str]:
            """The runs whose jobs wait, by their places, once these are the places in XCom and on the page."""

            def seen() -> tuple[dict[Place, str], dict[Place, str]]:
                return in_xcom(airflow, handles), on_page(client, queue)

            def probe() -> dict[Place, str] | None:
                xcom, page = seen()
                return page if page == xcom and set(page) == set(places) else None

            return wait_until(probe, _SHOWN_WITHIN, lambda: f"not {places}: {seen()}")

        first, second = (queue, 1, 2), (queue, 2, 2)
        found = run_at(first, second)
        airflow.set_task_state(_QUEUED, found[first], "train", "failed")
        wait_until_gone(on_cluster, handles.pop(found[first]))

        assert run_at((queue, 1, 1)) == {(queue, 1, 1): found[second]}


def in_xcom(airflow: AirflowInstance, runs: Iterable[str]) -> dict[Place, str]:
    """Place -> run, as the triggerer has written it."""
    found = {run: airflow.xcom(_QUEUED, run, "train", "status") or {} for run in runs}
    return {place_of(status.get("queue"), "name"): run for run, status in found.items()}


def on_page(client: httpx.Client, queue: str) -> dict[Place, str]:
    """Place -> run, of all jobs that wait in a queue."""
    rows = client.get("/trainer/api/jobs", params={"view": "waiting"}).raise_for_status().json()["jobs"]
    return {place_of(row["position"], "queue"): row["run_id"] for row in rows if row["queue"] == queue}


def place_of(known: Mapping[str, Any] | None, queue: str) -> Place:
    return tuple((known or {}).get(name) for name in (queue, "position", "length"))
