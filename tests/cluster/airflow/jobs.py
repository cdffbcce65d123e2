"""The jobs of Airflow's tasks on the cluster: which they are, and whether something is left of them."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.kinds.objects.labels import JOB, TASK
from tests.cluster.airflow.conftest import OnCluster
from tests.cluster.jobs import resource_name
from tools.airflow_runner.api import wait_until

#: Seconds: pods take their time to go.
_GONE = 270


def handle_of(on_cluster: OnCluster, dag_id: str, run: str, map_index: int = -1) -> JobHandle:
    """The job that a task has recorded."""

    def recorded() -> Any:
        return on_cluster.airflow.xcom(dag_id, run, "train", "job", map_index)

    return JobHandle.parse(wait_until(recorded, 90, lambda: "no handle in XCom"))


def key_of(handle: JobHandle) -> str:
    """What the names of all jobs of one task share: the value of the label ``TASK``."""
    return handle.name.split("-")[-2]


def wait_until_gone(on_cluster: OnCluster, handle: JobHandle | None = None) -> None:
    """Nothing of any job of a task is left, or of all tasks' jobs: neither its pods nor what stood for it.

    :param handle: one of the task's jobs.
    """
    selector = f"{TASK}={key_of(handle)}" if handle else TASK
    kinds = ",".join(["pods", *on_cluster.job_kinds])

    def left() -> list[str]:
        found = on_cluster.access.kubectl.list(kinds, on_cluster.namespace, selector)
        return [f"{each['kind']} {each['metadata']['name']}" for each in found]

    wait_until(lambda: not left() or None, _GONE, lambda: f"still there: {left()}")


def wait_until_alone(on_cluster: OnCluster, handle: JobHandle) -> None:
    """No other job of its task is there, but for those that are being deleted."""
    task = key_of(handle)

    def living() -> list[str]:
        found = kubectl.list(resource_name(handle), on_cluster.namespace, f"{TASK}={task}")
        metadata = [each["metadata"] for each in found]
        # `native` makes several objects of one job.
        return sorted({each["labels"][JOB] for each in metadata if "deletionTimestamp" not in each})

    kubectl = on_cluster.access.kubectl
    wait_until(lambda: living() == [handle.name] or None, _GONE, lambda: f"not {handle.name} alone: {living()}")
