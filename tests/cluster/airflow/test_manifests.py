"""Jobs of other people: their manifests, which the operator brings, and their jobs, which the sensor waits for."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
import yaml

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.cluster.find import Wanted, find
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.job.follow import end_of
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.manifest import manifest_job
from airflow_trainer_provider.spec import parse_manifest_spec
from tests.cluster.airflow.dags.manifests import JOB
from tools.airflow_runner.api import wait_until

#: Kind -> the resource, the backend, the framework, how many replicas, and the result.
BROUGHT = {
    "pytorchjob": ("pytorchjobs.kubeflow.org", "training-operator", "pytorch", 3, True),
    "trainjob": ("trainjobs.trainer.kubeflow.org", "trainer", "", 2, False),
    "xgboostjob": ("xgboostjobs.kubeflow.org", "training-operator", "xgboost", 2, False),
    "job": ("jobs.batch", "native", "", 2, True),
}
SCRIPT = """
i=0
while [ ! -e /tmp/go ] && [ "$i" -lt {ticks} ]; do echo "line $i"; i=$((i + 1)); sleep 0.5; done
{end}
"""


def _job(name, *, ticks=6, end='echo \'{"metrics": {"loss": 0.25}}\' > /dev/termination-log', labels=None):
    """A batch Job of one pod, as somebody applies it by hand."""
    job = yaml.safe_load(JOB.replace("{{", "").replace("}}", ""))
    job["metadata"] = {"name": name, "labels": labels or {}}
    job["spec"] |= {"completions": 1, "parallelism": 1}
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["sh", "-c", SCRIPT.format(ticks=ticks, end=end)]
    return job


@pytest.fixture
def name():
    return f"by-hand-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def apply(cluster, on_cluster):
    """Function (manifests) -> they are there, as if somebody had applied them; and gone after the test."""
    where, made = f"--namespace={on_cluster.namespace}", []

    def apply(*manifests):
        made.extend(manifests)
        cluster.kubectl.apply(manifests, where)

    yield apply
    for each in made:
        cluster.kubectl("delete", each["kind"], each["metadata"]["name"], where, "--ignore-not-found", "--wait=false")


def _lines(log, replica):
    """The numbers of the replica's lines in a task's log, in the order in which they stand there."""
    return [int(number) for number in re.findall(rf"\[{replica}\] line (\d+)", log)]


def _assert_untouched(on_cluster, kind, name):
    """Nothing of ours was written on it."""
    found = on_cluster.access.kubectl.get(kind, name, on_cluster.namespace)
    assert "airflow-trainer-provider" not in str(found["metadata"]), found["metadata"]


@pytest.mark.parametrize("kind", BROUGHT)
def test_a_manifest_trains_waiting_and_deferred(cluster, on_cluster, kind):
    resource, backend, framework, replicas, has_result = BROUGHT[kind]
    airflow = on_cluster.airflow
    runs = {dag_id: on_cluster.run(dag_id, "") for dag_id in (f"brought_{kind}_waiting", f"brought_{kind}_deferred")}
    for dag_id, run in runs.items():
        assert airflow.wait_for_run(dag_id, run) == "success", airflow.task_log(dag_id, run, "train", 1)
        result = airflow.xcom(dag_id, run, "train")
        assert (result["backend"], result["framework"]) == (backend, framework)
        assert len(result["replicas"]) == replicas
        assert bool(result["metrics"]) is has_result
        assert "result_error" not in result
        log = airflow.task_log(dag_id, run, "train", 1)
        assert f"[{airflow.xcom(dag_id, run, 'train', 'job')['leader']}]" in log
    wait_until(
        lambda: not cluster.kubectl.list(resource, on_cluster.namespace) or None, 60, lambda: f"{resource} are left"
    )


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_manifests_job_that_fails_is_diagnosed(cluster, on_cluster, how):
    dag_id = f"brought_job_{how}"
    run = on_cluster.run(dag_id, "", word="fail")

    assert on_cluster.airflow.wait_for_run(dag_id, run) == "failed"

    failure = on_cluster.airflow.xcom(dag_id, run, "train", "failure")
    assert failure["exit_code"] == 3
    assert "no such shard" in failure["last_log_lines"]


@pytest.mark.parametrize("how", ["poke", "reschedule", "deferred"])
def test_a_job_that_comes_later_is_waited_for_and_left_as_it_is(cluster, on_cluster, apply, name, how):
    airflow, dag_id = on_cluster.airflow, f"found_{how}"
    run = on_cluster.run(dag_id, "", name=name)
    airflow.wait_for_task(dag_id, run, "wait", frozenset({"running", "deferred", "up_for_reschedule"}))
    wait_until(lambda: "There is no" in airflow.task_log(dag_id, run, "wait", 1) or None, 60, lambda: "not looked")

    apply(_job(name))

    assert airflow.wait_for_run(dag_id, run) == "success", airflow.task_log(dag_id, run, "wait", 1)
    result = airflow.xcom(dag_id, run, "wait")
    assert (result["name"], result["phase"], result["metrics"]) == (name, "succeeded", {"loss": 0.25})
    # Each line once, in order, in each mode.
    text = airflow.task_log(dag_id, run, "wait", 1)
    assert _lines(text, "worker-0") == list(range(6)), text
    _assert_untouched(on_cluster, "job", name)


@pytest.mark.parametrize("how", ["poke", "reschedule", "deferred"])
def test_a_job_of_others_that_fails_is_diagnosed_and_left(cluster, on_cluster, apply, name, how):
    apply(_job(name, ticks=1, end="echo 'no such shard' >&2; exit 3"))
    run = on_cluster.run(f"found_{how}", "", name=name, kind="Job")

    assert on_cluster.airflow.wait_for_run(f"found_{how}", run) == "failed"

    failure = on_cluster.airflow.xcom(f"found_{how}", run, "wait", "failure")
    assert (failure["replica"], failure["exit_code"]) == ("worker-0", 3)
    assert "no such shard" in failure["last_log_lines"]
    _assert_untouched(on_cluster, "job", name)


@pytest.mark.parametrize("how", ["poke", "deferred"])
def test_its_start_is_waited_for_by_label_and_it_goes_on(cluster, on_cluster, apply, name, how):
    apply(_job(name, ticks=600, labels={"stage": name}))
    run = on_cluster.run(f"found_{how}", "", selector=f"stage={name}", phase="running")

    assert on_cluster.airflow.wait_for_run(f"found_{how}", run) == "success"

    assert on_cluster.airflow.xcom(f"found_{how}", run, "wait")["phase"] == "running"
    assert not on_cluster.access.kubectl.get("job", name, on_cluster.namespace)["status"].get("succeeded")
    _assert_untouched(on_cluster, "job", name)


def test_two_that_fit_are_named(cluster, on_cluster, apply, name):
    apply(*(_job(f"{name}-{each}", labels={"stage": name}) for each in "ab"))
    run = on_cluster.run("found_poke", "", selector=f"stage={name}")

    assert on_cluster.airflow.wait_for_run("found_poke", run) == "failed"

    assert f"Job {name}-a, Job {name}-b" in on_cluster.airflow.task_log("found_poke", run, "wait", 1)


def test_a_trainjob_of_others_is_seen_whole(cluster, on_cluster, apply, name):
    # Its runtime says how many nodes it has.
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {"name": "trainer-test-torch"},
            "trainer": {"command": ["sh", "-c", "echo line 0; echo line 1"]},
        },
    }
    apply(job)
    run = on_cluster.run("found_deferred", "", name=name)

    assert on_cluster.airflow.wait_for_run("found_deferred", run) == "success"

    assert [row["group"] for row in on_cluster.airflow.xcom("found_deferred", run, "wait")["replicas"]] == ["node"]
    assert _lines(on_cluster.airflow.task_log("found_deferred", run, "wait", 1), "node-0") == [0, 1]
    _assert_untouched(on_cluster, "trainjob", name)


@pytest.fixture
async def native(cluster, namespace):
    """Plain Kubernetes, without Airflow."""
    connection = ClusterConnection(id=f"test-{uuid.uuid4().hex[:6]}", kube_config_path=str(cluster.kubectl.kubeconfig))
    connected = await Cluster.of(connection)
    yield ClusterBackend("native", connected, namespace)
    await connected.close()


def _brought(ticks, **fields):
    return manifest_job(parse_manifest_spec({"manifest": _job("by-hand", ticks=ticks), **fields}))


def _try(number):
    return Identity(dag_id="d", run_id="r", task_id="t", try_number=number)


async def _end(backend, handle):
    return [status async for status in backend.watch(handle)][-1]


async def test_the_next_try_adopts_a_manifests_job_that_runs(cluster, namespace, native):
    first = await native.submit(_brought(20), _try(1))
    second = await native.submit(_brought(20), _try(2))

    assert first.adopted is None
    assert "still runs" in second.adopted
    assert second.handle.uid == first.handle.uid
    assert len(cluster.kubectl.list("jobs", namespace)) == 1
    assert not await native.cancel(first.handle, "a try that is over")
    assert (await _end(native, second.handle)).phase is JobPhase.SUCCEEDED
    await native.collected(second.handle)
    assert cluster.kubectl.get("job", second.handle.name, namespace) is None


async def test_another_manifest_ends_the_job_of_the_earlier_try(cluster, namespace, native):
    first = await native.submit(_brought(600), _try(1))
    second = await native.submit(_brought(2), _try(2))

    assert second.adopted is None
    assert cluster.kubectl.get("job", first.handle.name, namespace) is None
    assert (await _end(native, second.handle)).phase is JobPhase.SUCCEEDED


async def test_a_manifests_job_is_suspended_and_goes_on_with_the_next_try(cluster, namespace, native):
    job = _brought(12, on_kill_action="suspend")
    first = await native.submit(job, _try(1))
    assert await native.cancel(first.handle, "marked")
    assert (await _end(native, first.handle)).phase is JobPhase.CANCELLED

    second = await native.submit(job, _try(2))

    assert second.adopted == "it was suspended, and goes on"
    assert (await _end(native, second.handle)).phase is JobPhase.SUCCEEDED


async def test_a_field_that_nobody_knows_is_refused_by_the_api_server(namespace, native):
    manifest = _job("by-hand")
    manifest["spec"]["aFieldOfTomorrow"] = 1

    with pytest.raises(SubmitError, match="aFieldOfTomorrow"):
        await native.submit(manifest_job(parse_manifest_spec({"manifest": manifest})), _try(1))


#: What docs/how-to/sensors.md says that a sensor for jobs of others needs.
READER = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events", "services"], "verbs": ["list"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["kubeflow.org"],
        "resources": ["pytorchjobs", "tfjobs", "xgboostjobs", "mpijobs", "paddlejobs", "jaxjobs"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainingruntimes"], "verbs": ["get"]},
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["list", "watch"]},
]


@pytest.fixture
def reader_config(cluster, namespace, tmp_path):
    """The kubeconfig of an account that may only read."""
    kubectl, where = cluster.kubectl, f"--namespace={namespace}"
    rbac, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    binding = {
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }
    kubectl.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
            {"apiVersion": rbac, "kind": "Role", "metadata": {"name": "reader"}, "rules": READER},
            {"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "reader"}, **binding},
        ],
        where,
    )
    config = yaml.safe_load(Path(kubectl.kubeconfig).read_text())
    config["users"] = [{"name": "reader", "user": {"token": kubectl("create", "token", "reader", where).strip()}}]
    config["contexts"][0]["context"]["user"] = "reader"
    config["current-context"] = config["contexts"][0]["name"]
    file = tmp_path / "reader"
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.fixture
async def reader(reader_config):
    """The cluster, as that account sees it."""
    connected = await Cluster.of(ClusterConnection(id=f"test-{uuid.uuid4().hex[:6]}", kube_config_path=reader_config))
    yield connected
    await connected.close()


TRAINJOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "by-hand"},
    "spec": {
        "runtimeRef": {"name": "trainer-test-torch"},
        "trainer": {"numNodes": 2, "command": ["sh", "-c", "echo line 0; echo line 1"]},
    },
}


@pytest.mark.parametrize("manifest", [_job("by-hand"), TRAINJOB], ids=["job", "trainjob"])
async def test_who_may_only_read_can_follow_a_job_to_its_end(cluster, namespace, reader, manifest):
    cluster.kubectl.apply([manifest], f"--namespace={namespace}")

    (handle,) = await find(reader, namespace, Wanted(name="by-hand"))
    backend = ClusterBackend(handle.backend, reader, namespace)
    async with end_of(backend, handle) as ended:
        lines = [line.text async for line in backend.logs(handle, "reader", ended)]

    assert (await backend.status(handle)).phase is JobPhase.SUCCEEDED
    assert {"line 0", "line 1"} <= set(lines)
