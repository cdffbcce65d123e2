"""A job starts from a runtime, by one of its own that is made of it or from it itself, and leaves nothing beside it."""

from __future__ import annotations

import copy
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobPhase
from tests.cluster.contract.conftest import ClusterCase
from tests.contract import test_adoption as adoption
from tests.contract import test_manage as manage
from tests.contract import test_outcome as outcome
from tests.contract.conftest import Contract
from tests.initializers import with_initializers

#: An initializer that writes down what Trainer's controller has put into its container.
_FETCHES = 'echo "$STORAGE_URI,$REVISION,$TOKEN" > /workspace/$HOSTNAME.fetched'

#: What the pods of a runtime have where a TrainJob may start from it itself.
_STEP = {
    "name": "node",
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    # As the pods of the other tests have it.
                    "shareProcessNamespace": True,
                    "containers": [
                        {
                            "name": "node",
                            "image": "trainer.test/worker:test",
                            "args": ["of the runtime, beside another command"],
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        }
                    ],
                }
            },
        },
    },
}


@dataclass
class DirectCase(ClusterCase):
    """Jobs of TrainJobs that start from a ClusterTrainingRuntime itself."""

    runtime: str = ""

    def _laid_out(self, values: dict[str, Any]) -> dict[str, Any]:
        template = copy.deepcopy(values["pod_template"])
        del template["spec"]["shareProcessNamespace"]
        return {**values, "pod_template": template, "image": None, "runtime_ref": self.runtime}


@pytest.fixture
async def direct(cluster, namespace, shared):
    name = f"contract-{uuid.uuid4().hex[:6]}"
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "jax"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "jax": {}},
            "template": {"spec": {"replicatedJobs": [_STEP]}},
        },
    }
    cluster.kubectl.apply_until_accepted([runtime], seconds=180)
    connected = await Cluster.of(ClusterConnection(id=name, kube_config_path=str(cluster.kubectl.kubeconfig)))
    yield Contract(DirectCase(ClusterBackend("trainer", connected, namespace), shared, cluster, namespace, name))
    await connected.close()
    cluster.kubectl("delete", "clustertrainingruntime", name, "--wait=false")


def _runtimes(contract):
    found = contract.case.access.kubectl.list("trainingruntimes", contract.case.namespace)
    return [each["metadata"]["name"] for each in found]


def _mine(cluster, change=lambda runtime: runtime):
    """A runtime of the namespace, made of one of the cluster's."""
    given = cluster.kubectl.get("clustertrainingruntime", "trainer-test-torch")
    return change(
        {
            "apiVersion": given["apiVersion"],
            "kind": "TrainingRuntime",
            "metadata": {"name": "mine", "labels": given["metadata"]["labels"]},
            "spec": copy.deepcopy(given["spec"]),
        }
    )


async def test_a_runtime_of_the_namespace_gives_what_the_job_does_not(contract, cluster, namespace):
    if contract.backend.name != "trainer":
        pytest.skip("no other backend starts from a runtime")
    mine = _mine(cluster)
    (container,) = mine["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "containers"
    ]
    container["env"] = [{"name": "OF_THE_RUNTIME", "value": "yes"}]
    cluster.kubectl.apply_until_accepted([mine], f"--namespace={namespace}", seconds=180)
    # The image is the runtime's.
    job = contract.case.job(
        'note("seen", os.environ["OF_THE_RUNTIME"])',
        framework="pytorch",
        launcher="none",
        image=None,
        runtime_ref="TrainingRuntime/mine",
    )

    handle, status = await contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    assert contract.noted("seen") == ["yes", "yes"]
    assert len(_runtimes(contract)) == 2
    await contract.backend.acknowledge(handle)
    await contract.until(lambda: _runtimes(contract) == ["mine"])


async def test_a_trainjob_starts_from_a_cluster_runtime_itself(direct, caplog):
    caplog.set_level("INFO")
    job = direct.case.job(
        """
        note("env", "-".join([me, os.environ["JAX_PROCESS_ID"], os.environ["NUM_PROCESSES"], os.environ["STAGE"]]))
        pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps({"from": me}))
        print("done", flush=True)
        """,
        env={"STAGE": "nightly"},
        resources_per_node={"cpu": "50m"},
    )

    handle, status = await direct.run(job)

    runtime = direct.case.runtime
    assert status.phase is JobPhase.SUCCEEDED, direct.lines
    assert summarize(handle, status, await direct.backend.result(handle))["result"] == {"from": "worker-0"}
    assert sorted(direct.noted("env")) == ["worker-0-0-2-nightly", "worker-1-1-2-nightly"]
    assert {"[worker-0] done", "[worker-1] done"} <= set(direct.lines)
    assert f"The TrainJob starts from ClusterTrainingRuntime {runtime} itself." in caplog.messages
    assert direct.case.main(handle)["spec"]["runtimeRef"]["name"] == runtime
    assert _runtimes(direct) == []
    await direct.backend.acknowledge(handle)
    await direct.until(lambda: not any(_left(direct, kind) for kind in ("trainjobs", "jobsets", "pods")))
    await direct.until(lambda: not [name for name in _left(direct, "configmaps") if name.startswith(handle.name)])


def _left(contract, kind):
    return [each["metadata"]["name"] for each in contract.case.access.kubectl.list(kind, contract.case.namespace)]


@pytest.mark.parametrize(
    "check",
    [
        outcome.test_the_rank_that_raises_is_named_with_its_traceback_and_survivors_are_gone,
        outcome.test_success_has_a_result_and_a_row_for_each_replica,
        pytest.param(adoption.test_the_next_try_adopts_a_running_job, marks=pytest.mark.no_second_chance),
        pytest.param(
            adoption.test_an_uncollected_result_is_taken_and_a_collected_one_is_not, marks=pytest.mark.no_second_chance
        ),
        manage.test_a_job_is_managed_by_its_name,
    ],
    ids=lambda check: check.__name__,
)
async def test_the_contract_holds_for_a_trainjob_that_starts_from_a_runtime_itself(direct, check):
    await check(direct)

    assert _runtimes(direct) == []


async def test_a_failed_pod_is_not_started_again(direct):
    job = direct.case.job('note("attempts", "x"); sys.exit(3)', nodes=1)

    _, status = await direct.run(job)

    assert (status.phase, status.replicas[0].exit_code) == (JobPhase.FAILED, 3)
    assert direct.noted("attempts") == ["x"]


async def test_a_job_from_a_runtime_itself_is_suspended_and_goes_on(direct):
    handle = await direct.submit(direct.case.job('note("began", me); wait_for("go")', nodes=1))
    await direct.until(lambda: direct.noted("began"))
    before = direct.case.main(handle)["spec"]

    await direct.backend.suspend(handle)
    await direct.until(lambda: not direct.case.pods(handle))
    await direct.backend.resume(handle)
    direct.release("go")

    assert (await direct.end(handle)).phase is JobPhase.SUCCEEDED
    after = direct.case.main(handle)["spec"]
    assert (after["trainer"], after["runtimePatches"]) == (before["trainer"], before["runtimePatches"])
    assert direct.noted("began") == ["worker-0", "worker-0"]


async def test_a_runtime_whose_pods_are_restarted_is_not_taken_itself(contract, caplog):
    if contract.backend.name != "trainer":
        pytest.skip("no other backend starts from a runtime")
    caplog.set_level("INFO")
    job = contract.case.job(
        "sys.exit(3)", nodes=1, framework="pytorch", launcher="none", runtime_ref="trainer-test-torch"
    )

    handle, status = await contract.run(job)

    assert (status.phase, status.replicas[0].restarts) == (JobPhase.FAILED, 0)
    assert _runtimes(contract) == [handle.name]
    (reason,) = [text for text in caplog.messages if "a runtime of its own" in text]
    assert {"backoffLimit,", "restartPolicy,"} <= set(reason.split())


async def test_initializers_have_what_the_task_says_and_the_nodes_start_after_them(contract, cluster, namespace):
    if contract.backend.name != "trainer":
        pytest.skip("no other backend has initializers")
    volume = {"hostPath": {"path": str(contract.case.shared)}}
    mine = _mine(
        cluster,
        lambda given: with_initializers(given, "dataset", "model", volume=volume, command=["sh", "-c", _FETCHES]),
    )
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hub"},
        "stringData": {"TOKEN": "of-the-secret"},
    }
    cluster.kubectl.apply_until_accepted([token, mine], f"--namespace={namespace}", seconds=180)
    dataset = {"storage_uri": "hf://of/the-task", "env": {"REVISION": "main"}, "secret": "hub"}
    snippet = """
        texts = sorted(file.read_text().strip() for file in shared.glob("*.fetched"))
        note("seen", ";".join(texts))
    """
    job = contract.case.job(
        snippet,
        framework="pytorch",
        launcher="none",
        image=None,
        runtime_ref={"name": "TrainingRuntime/mine", "initializer": {"dataset": dataset}},
    )

    _, status = await contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    # The task says nothing to the other one, which has what the runtime says.
    assert contract.noted("seen") == ["hf://of/the-runtime,,;hf://of/the-task,main,of-the-secret"] * 2


async def test_a_runtime_without_the_initializer_is_refused_before_anything_is_created(contract, cluster):
    if contract.backend.name != "trainer":
        pytest.skip("no other backend has initializers")
    initializer = {"model": {"storage_uri": "hf://a/b"}}
    job = contract.case.job(
        "", framework="pytorch", runtime_ref={"name": "trainer-test-torch", "initializer": initializer}
    )

    with pytest.raises(UnsupportedField, match="trainer-test-torch has none"):
        await contract.run(job)

    assert _runtimes(contract) == []
