"""Whatever stands in a field, an operator goes on with it or says what is wrong, before anything is created.

``FUZZ_VALUES`` is the number of values for each field: 250, and 1,000 at full scale. ``FUZZ_SEED`` gives others than
the usual ones.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException, BaseHook, Connection

import airflow_trainer_provider as provider
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.errors import SpecError, TrainJobError
from airflow_trainer_provider.hooks import trainer
from airflow_trainer_provider.job.identity import Identity, spec_digest
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.operators.train_job import TrainJobOperator
from tests.scale import FULL
from tests.unit.operators.hostile_values import SECRET, atom, near_miss, tree

VALUES = int(os.environ.get("FUZZ_VALUES", "1000" if FULL else "250"))
SEED = os.environ.get("FUZZ_SEED", "")
#: Seconds of the processor for one value: 10 ms are usual, and minutes where the time grows with the square of its
#: length. And bytes for all values of a field.
MOST_SECONDS = 3
MOST_BYTES = 300 * 2**20
IDENTITY = Identity(dag_id="d", run_id="r", task_id="t")
CONTEXT = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)}

REPLICAS = {
    "worker": {
        "replicas": 2,
        "image": "train:2",
        "args": ["--lr", "0.1"],
        "env": {"A": "b", "NODE": {"field": "spec.nodeName"}},
        "resources": {"cpu": 1, "memory": {"requests": "1Gi", "limits": "2Gi"}},
        "scheduling": {"node_selector": {"disk": "ssd"}, "tolerations": [{"key": "gpu"}]},
        "pod": {"labels": {"role": "worker"}, "env_from": []},
        "overrides": [{"index": 1, "env": {"C": "d"}, "command": ["python", "eval.py"], "scheduling": {}, "pod": {}}],
    }
}
SOURCES = {
    "TOKEN": {"secret": {"name": "hub", "key": "token"}},
    "URL": "https://$(TOKEN)",
    "PROXY": {"config_map": {"name": "proxy", "key": "http"}},
    "IP": {"field": "status.podIP"},
}
SCHEDULING = {
    "node_selector": {"disk": "nvme", "slot": 1},
    "node_pools": ["h100", "a100"],
    "node_pool_label": "example.com/pool",
    "node_affinity": [{"key": "zone", "operator": "NotIn", "values": ["a"]}, {"key": "cores", "operator": "Exists"}],
    "tolerations": [{"key": "gpu", "value": "yes", "effect": "NoExecute", "seconds": 30}, {"operator": "Exists"}],
    "topology": {"key": "topology.kubernetes.io/zone", "required": True},
    "priority_class": "research",
    "scheduler_name": "kai-scheduler",
}
POD = {
    "service_account": "data",
    "security": {"run_as_user": 5000, "run_as_group": 5000, "supplemental_groups": [7], "fs_group": 0},
    "image_pull": {"policy": "Always", "secrets": ["registry"]},
    "labels": {"team": "vision", "example.com/slot": 1},
    "annotations": {"note": "x y", "example.com/a": 0.5},
    "env_from": [{"secret": "hub", "prefix": "HUB_"}, {"config_map": "proxy"}],
}
POD_TEMPLATE = {
    "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "x"}},
    "spec": {
        "nodeSelector": {"gpu": "yes"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "initContainers": [{"name": "fetch", "image": "fetch:1", "command": ["fetch"]}],
        "containers": [
            {
                "name": "train",
                "env": [
                    {"name": "TOKEN", "value": SECRET},
                    {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s"}}},
                ],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "resources": {"limits": {"rdma/hca": 1}},
                "ports": [{"containerPort": 80}],
            },
            {"name": "logs", "image": "logs:1", "args": ["-f"]},
        ],
    },
}
MANIFEST = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "mine", "namespace": "team", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "pytorchReplicaSpecs": {
            "Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}}
        }
    },
}
TRAIN_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2, "env": [{"name": "TOKEN", "value": SECRET}]}},
}
BATCH_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"completionMode": "Indexed", "completions": 2, "template": {"spec": {"terminationGracePeriodSeconds": 5}}},
}
HANDLE = {
    "name": "j",
    "uid": "u",
    "backend": "native",
    "framework": "jax",
    "leader": "worker-0",
    "owner": 1,
    "location": "native/team/kubernetes_default",
}
VOLUMES = [
    {"mount_path": "/data", "claim": "sets", "sub_path": "small", "read_only": True},
    {"mount_path": "/scratch", "new_claim": {"size": "10Gi", "access_modes": ["ReadWriteMany"], "storage_class": "s"}},
    {"mount_path": "/tmp/x", "empty_dir": {"medium": "memory", "size": "1Gi"}},
    {"mount_path": "/host", "host_path": "/srv"},
    {"mount_path": "/nfs", "nfs": {"server": "nfs.example", "path": "/sets"}},
    {"mount_path": "/conf", "config_map": {"name": "settings", "items": [{"key": "a.yaml", "path": "b/a.yaml"}]}},
    {"mount_path": "/hub", "secret": {"name": "hub"}},
    {
        "mount_path": "/src",
        "git": {"repository": "https://h/t.git", "revision": "v1", "secret_name": "g", "image": "g"},
    },
    {"mount_path": "/s3", "s3": {"uri": "s3://sets/a", "endpoint": "http://minio:9000", "image": "r"}},
]
#: Field of TrainJobOperator -> right values of it.
JOB_FIELDS: Mapping[str, list[Any]] = {
    "framework": ["pytorch", "tensorflow", "mpi", "xgboost", "paddle", "jax"],
    "name": ["nightly", "a"],
    "num_nodes": [1, 2, "3", 100],
    "num_workers": [1, "2"],
    "num_proc_per_node": [1, 2, "auto", "gpu"],
    "replicas": [REPLICAS, {"master": {"image": "m:1"}, "worker": {"replicas": 3}}, {"worker": {}}],
    "image": ["train:1", "registry.example/team/train@sha256:0123"],
    "command": [["python", "train.py"], ["sh", "-c", "true"]],
    "args": [["--epochs", 4, 0.1], [f"--token={SECRET}"], []],
    "env": [{"A": "b", "N": 4}, {"TOKEN": SECRET}, {}, SOURCES],
    "working_dir": ["/srv", "/"],
    "resources_per_node": [
        {"cpu": 2, "memory": "4Gi", "gpu": 1},
        {"gpu": {"amd.com/gpu": "2"}, "extended": {"rdma/hca": 1}, "shared_memory": "auto"},
        {"gpu": {"requests": 1, "limits": 1}, "memory": "4Gi", "shared_memory": "1Gi"},
        {"cpu": {"requests": "500m", "limits": 1}},
        {"gpu": {"fraction": 0.5}},
    ],
    "launcher": [
        "auto",
        "none",
        {"name": "mpirun", "implementation": "Intel", "is_node": True, "ssh_mount_path": "/home/u/.ssh"},
    ],
    "elastic": [{"min_nodes": 1, "max_nodes": 3, "max_restarts": 2, "rdzv_conf": {"join_timeout": 300}}],
    "run_policy": [
        {"backoff_limit": 2, "active_deadline_seconds": 60.5, "grace_period_seconds": 5},
        {"startup_timeout_seconds": "600", "infrastructure_retries": 1, "ttl_seconds_after_finished": 60},
        {"backoff_limit": 1, "exit_codes": {"fail": [3, "64-113"]}, "clean_pods": "All"},
        {"exit_codes": {"restart": ["128-255"]}, "clean_pods": "Running"},
    ],
    "runtime_ref": [
        "torch-distributed",
        "TrainingRuntime/mine",
        {"name": "r", "initializer": {"dataset": {"storage_uri": "hf://a/b", "env": {"TOKEN": SECRET}, "secret": "s"}}},
    ],
    "scheduling": [SCHEDULING, {"topology": {"key": "zone", "policy": "spread", "required": "true"}}],
    "pod": [POD, {"env_from": [], "image_pull": {"secrets": []}, "security": {"supplemental_groups": ["7"]}}],
    "volumes": [
        VOLUMES,
        VOLUMES[:1],
        [{"mount_path": "/kept", "name": "k", "new_claim": {"size": 2**30, "keep": True}}],
    ],
    "checkpoint": [{"claim": "models", "path": "a/b", "scope": "dag"}, {"host_path": "/srv"}],
    "pod_template": [POD_TEMPLATE, {"spec": {"nodeSelector": {"a": "b"}}}],
    "tools": [
        {"tensorboard": {"port": 6006}, "lab": {"port": "8888", "access": "node_port", "node_port": 30888}},
        {"tb": {"port": 6006, "access": "ingress", "host": "{job}.example", "annotations": {"example.com/a": SECRET}}},
        {"gate": {"port": 80, "access": "url", "url": "https://tools.example/{namespace}/{job}/"}},
        {},
    ],
    "metrics": [{"step": r"step (\d+)", "eval/loss": r"loss=(?P<value>[-+.\deE]+|nan)(,|$)"}, {}],
    "on_kill_action": ["delete", "suspend"],
    "on_finish_action": ["delete", "delete_succeeded", "keep"],
    "presets": ["large", ["large", "small"], "large, small"],
    "manifest": [MANIFEST, TRAIN_JOB, BATCH_JOB],
    "backend": ["native", "auto", "trainer", "local"],
    "kubernetes_conn_id": ["kubernetes_default"],
    "namespace": ["team", "1"],
}
#: Other fields that a problem of one may name: those that contradict it, and what the job needs then.
RELATED: Mapping[str, tuple[str, ...]] = {
    "framework": ("num_nodes", "scheduling.queue_name", "replicas"),
    "num_nodes": ("num_workers",),
    "num_proc_per_node": ("launcher",),
    "replicas": ("image", "num_nodes", "resources_per_node", "args", "command"),
    "launcher": ("num_proc_per_node",),
    "elastic": ("num_nodes", "launcher"),
    "on_finish_action": ("run_policy.ttl_seconds_after_finished", "run_policy.clean_pods"),
    "runtime_ref": ("image",),
    "pod_template": ("image",),
}
#: What the local backend refuses of every job that names an image.
LOCAL_FIELDS = ("image", "command", "working_dir")
#: Field of the operators that manage a job, and of the sensor -> right values of it.
TARGET_FIELDS: Mapping[str, list[Any]] = {
    "job": [HANDLE, {**HANDLE, "backend": "local", "location": "/nowhere"}],
    "name": ["job-1", "a.b"],
    "selector": ["app=train,stage!=test"],
    "kind": ["PyTorchJob", "trainjob"],
    "allowed_phases": [["succeeded"], ("running", "failed")],
    "older_than": [0, "86400", timedelta(days=1)],
    "list_only": [True, "False"],
    "backend": ["native"],
    "namespace": ["team"],
    "kubernetes_conn_id": ["kubernetes_default"],
}


class Reached(TrainJobError):
    """The field was taken: the cluster would be asked next."""


@pytest.fixture(autouse=True)
def nothing_of_others_to_collect() -> Iterator[None]:
    """Keep the garbage collector from the objects of all other tests: to go through them takes half a second."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def of(connection: Any, reread: Any) -> Any:
        raise Reached

    def get_connection(conn_id: str) -> Connection:
        if conn_id != "kubernetes_default":
            raise AirflowNotFoundException(conn_id)
        return Connection(conn_id=conn_id, conn_type="kubernetes")

    monkeypatch.setattr(Cluster, "of", of)
    # A connection that has existed is read once, not for five minutes.
    monkeypatch.setattr(trainer, "_READ_FIRST", 1e9)
    monkeypatch.setattr(BaseHook, "get_connection", get_connection)
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path))
    presets = tmp_path / "presets"
    presets.mkdir()
    (presets / "large.yaml").write_text("num_nodes: 2\nenv: {A: b}\n")
    (presets / "small.yaml").write_text("num_nodes: 1\n")
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", str(presets))


def rendered(task: Any, field: str, value: Any) -> Any:
    """The task as it is when one of its fields has been rendered to a value: Airflow itself looks at none any more."""
    copy = task.prepare_for_execution()
    setattr(copy, field, value)
    return copy


def values(field: str, samples: list[Any]) -> Iterator[tuple[int, Any]]:
    for number in range(VALUES):
        chance = random.Random(f"{SEED}/{field}/{number}")
        kind = chance.random()
        yield number, atom(chance) if kind < 0.3 else tree(chance) if kind < 0.5 else near_miss(chance, samples)


def check_field(field: str, samples: list[Any], related: tuple[str, ...], use: Callable[[Any], None]) -> None:
    """Use a field with each value, and look at what comes of it."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = 0
    for number, value in values(field, samples):
        began = time.process_time()
        try:
            use(value)
            taken += 1
        except SpecError as error:
            check_problems(error, (field, *related), f"{field}, value {number}")
        except Exception as error:
            raise AssertionError(f"{field}, value {number}: {type(error).__name__}: {error}") from error
        seconds = time.process_time() - began
        assert seconds < MOST_SECONDS, f"{field}, value {number}: {seconds:.2f} s"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
    assert grown < MOST_BYTES, f"{field}: {grown >> 20} MiB"
    # Neither all nor none are wrong, or nothing is tested.
    assert 0 < taken < VALUES or VALUES < 100


def check_problems(error: SpecError, fields: tuple[str, ...], what: str) -> None:
    assert error.problems, what
    for problem in error.problems:
        assert problem.field.startswith(fields), f"{what}: {problem}"
        assert problem.allowed, what
        assert problem.fix, f"{what}: {problem}"
    text = str(error)
    assert len(text) < 50_000, what
    assert SECRET not in text, f"{what}: {text}"


def test_every_templated_field_is_tested() -> None:
    assert {*JOB_FIELDS, "rendered_job"} == set(TrainJobOperator.template_fields)


@pytest.mark.parametrize("field", JOB_FIELDS)
def test_a_field_of_the_operator(field: str, tmp_path: Path) -> None:
    backends = [LocalBackend(tmp_path, 0.05, None), *(ClusterBackend(name, None, "team") for name in BACKENDS)]
    others = {} if field == "manifest" else {"framework": "pytorch", "image": "i", "command": ["python", "t.py"]}
    task = TrainJobOperator(task_id="t", **others)
    seen: set[str] = set()

    def use(value: Any) -> None:
        operator = rendered(task, field, value)
        job = operator._job()
        operator.hook.name  # noqa: B018
        digest = spec_digest(job.spec)
        if digest in seen:
            return
        seen.add(digest)
        for backend in backends if isinstance(job, JobPlan) else [ClusterBackend(job.backend, None, "team")]:
            try:
                backend.check(job)
                backend.render(job, IDENTITY)
            except SpecError as error:
                related = LOCAL_FIELDS if backend.name == "local" else ()
                check_problems(
                    error, ("framework", field, *RELATED.get(field, ()), *related), f"{field} on {backend.name}"
                )

    check_field(field, JOB_FIELDS[field], RELATED.get(field, ()), use)


@pytest.mark.parametrize(
    ("operator", "field"),
    [
        *((provider.TrainJobSensor, field) for field in provider.TrainJobSensor.template_fields),
        *((provider.SuspendTrainJobOperator, field) for field in provider.SuspendTrainJobOperator.template_fields),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
# A value of 60,000 parts takes the loop of the task's own process for a tenth of a second, to be refused.
@pytest.mark.loop_errors
def test_a_field_of_those_that_find_a_job(operator: Any, field: str) -> None:
    others = {} if field in ("job", "name", "selector") else {"name": "j"}
    task = operator(task_id="t", **others)

    def use(value: Any) -> None:
        try:
            rendered(task, field, value).execute(CONTEXT)
        except AirflowNotFoundException:
            # There is no such connection.
            assert field in ("kubernetes_conn_id", "job")
        except AirflowException as error:
            cause = error.__cause__
            # With any other error of ours the field was taken: the job is not there, or cannot be suspended.
            if isinstance(cause, SpecError) or not isinstance(cause, TrainJobError):
                raise cause or error from None

    check_field(field, TARGET_FIELDS[field], ("name", "selector", "job"), use)


@pytest.mark.parametrize("field", provider.CleanUpTrainJobsOperator.template_fields)
def test_a_field_of_the_one_that_cleans_up(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__TRAINER__DEPLOYMENT", "production")
    task = provider.CleanUpTrainJobsOperator(task_id="t")

    def use(value: Any) -> None:
        try:
            rendered(task, field, value).execute(CONTEXT)
        except AirflowNotFoundException:
            assert field == "kubernetes_conn_id"
        except AirflowException as error:
            cause = error.__cause__
            if isinstance(cause, SpecError) or not isinstance(cause, TrainJobError):
                raise cause or error from None

    check_field(field, TARGET_FIELDS[field], (), use)
