"""A training that is taken away is never called a success, and the same try submits it again: one whole training.

``TRAINER_TEST_SCALE=full`` takes each training away ten times in each way, on each backend.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from airflow_trainer_provider.cluster.state.job_object import ClusterLocation
from airflow_trainer_provider.job.handle import JobHandle
from tests.cluster.airflow.jobs import handle_of, wait_until_gone
from tests.cluster.network import NODE_NAME
from tests.scale import FULL
from tools.airflow_runner.api import wait_until

# It drains the node, which takes nothing more meanwhile.
pytestmark = [pytest.mark.exclusive, pytest.mark.no_second_chance, pytest.mark.timeout(3600 if FULL else 900)]

#: Each has every training once waiting and once deferred.
ROUNDS = 5 if FULL else 1
#: In two manners by three means.
TRAININGS = 6
_AGAIN = "It starts again, as run_policy.infrastructure_retries allows: the infrastructure failed it."


@dataclass
class Training:
    """A mapped task, and the training that it follows.

    :param name: how it behaves when it is taken away, and by what that is.
    :param notes: where its replicas say what they do.
    """

    dag_id: str
    run_id: str
    index: int
    name: str
    notes: Path
    handle: JobHandle

    @property
    def by(self) -> str:
        return self.name.partition("-")[2]

    def noted(self, name: str) -> list[str]:
        file = self.notes / name
        return file.read_text().split() if file.exists() else []

    def has_begun(self) -> bool:
        """Whether all its replicas train."""
        return len(list(self.notes.glob("*-began"))) == (1 if "mpi" in self.dag_id else 2)

    def pods(self, kubectl) -> list[str]:
        found = kubectl.list("pods", ClusterLocation.of(self.handle).namespace, self.selector)
        return sorted(pod["metadata"]["name"] for pod in found)

    @property
    def selector(self) -> str:
        return f"{ClusterLocation.of(self.handle).kind.pod_label}={self.handle.name}"


@pytest.mark.parametrize(
    "backend",
    ["trainer", "training-operator", "native", pytest.param("mpi-operator", marks=pytest.mark.profile("mpi"))],
)
def test_what_is_taken_away_is_the_infrastructures_failure_and_trains_once_more(on_cluster, cluster, tmp_path, backend):
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o777)
    framework = "mpi" if backend == "mpi-operator" else "jax"
    for number in range(ROUNDS):
        trainings = []
        for how in ("waiting", "deferred"):
            folder = tmp_path / f"{how}-{number}"
            folder.mkdir()
            folder.chmod(0o777)
            dag_id = f"taken_away_{framework}_{how}"
            run_id = on_cluster.run(dag_id, backend, folder=str(folder))
            trainings += begun(on_cluster, dag_id, run_id, folder)

        take_away(cluster.kubectl, trainings)

        for each in trainings:
            assert_trained_once_more(on_cluster.airflow, each)
    wait_until_gone(on_cluster)


def begun(on_cluster, dag_id, run_id, folder):
    """The trainings of a run, each of which has begun and is followed."""
    airflow = on_cluster.airflow
    found = wait_until(lambda: rendered(airflow, dag_id, run_id), 180, lambda: str(airflow.task_states(dag_id, run_id)))
    trainings = []
    assert len(set(found.values())) == TRAININGS
    for index, name in found.items():
        handle = handle_of(on_cluster, dag_id, run_id, index)
        trainings.append(Training(dag_id, run_id, index, name, folder / name, handle))
    for each in trainings:
        wait_until(lambda each=each: each.has_begun() or None, 360, lambda each=each: f"not begun: {each}")
        log = partial(airflow.task_log, dag_id, run_id, "train", map_index=each.index)
        wait_until(lambda log=log: ": running." in log() or None, 180, log)
    return trainings


def rendered(airflow, dag_id, run_id):
    """Map index -> the name of the training; None until all tasks have begun."""
    names = {}
    for index in range(TRAININGS):
        # Airflow 3.1.0 leaves the rendered fields out of the list of a run's tasks.
        args = airflow.task_instance(dag_id, run_id, "train", map_index=index)["rendered_fields"].get("args")
        if not args:
            return None
        (names[index],) = args
    return names


def take_away(kubectl, trainings):
    """Evict or delete rank 0's pods, and drain the node of all pods of the others."""
    drained = [each for each in trainings if each.by == "drain"]
    for each in trainings:
        namespace = ClusterLocation.of(each.handle).namespace
        leader = each.pods(kubectl)[0]
        if each.by == "evict":
            kubectl.evict(leader, namespace, grace=None)
        elif each.by == "delete":
            kubectl("delete", "pod", leader, f"--namespace={namespace}", "--wait=false")
    label = ClusterLocation.of(drained[0].handle).kind.pod_label
    # The node has more than these jobs, such as the controllers.
    selector = f"{label} in ({','.join(each.handle.name for each in drained)})"
    try:
        kubectl("drain", NODE_NAME, f"--pod-selector={selector}", "--ignore-daemonsets", "--force", timeout=120)
    finally:
        kubectl("uncordon", NODE_NAME)


def assert_trained_once_more(airflow, training):
    which = (training.dag_id, training.run_id, "train")
    task = airflow.wait_for_task(*which, timeout=720, map_index=training.index)
    log = airflow.task_log(*which, map_index=training.index)
    assert (training.name, task["state"], task["try_number"]) == (training.name, "success", 1), log
    whole = training.noted("whole")
    assert len(whole) == 1, log
    assert airflow.xcom(*which, map_index=training.index)["result"] == {"whole": whole}
    if training.name.startswith("polite"):
        # The provider also ends the peers of the evicted pod, and they may be the first to save.
        saved = training.noted("saved")
        assert saved, log
        assert training.by == "drain" or training.handle.leader in saved, log
    if whole == [training.handle.name]:
        # The Training Operator has replaced the pod, and the job went on.
        assert (training.handle.backend, log.count(_AGAIN)) == ("training-operator", 0), log
        return
    assert log.count(_AGAIN) == 1, log
    who = r"\S+" if training.by == "drain" else re.escape(training.handle.leader)
    reason = "Deleted" if training.by == "delete" else "EvictionByEvictionAPI"
    assert re.search(rf"{who}( \(rank \d+\))? failed first: .*\b{reason}\b", log), log
