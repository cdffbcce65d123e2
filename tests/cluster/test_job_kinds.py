"""The jobs of the Training Operator and the MPI Operator: what is written trains, and what they say of it is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import ControllerStatus, Facts, Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.kubeflow.training_operator import JAXJOB, PADDLEJOB, PYTORCHJOB, TFJOB, XGBOOSTJOB
from airflow_trainer_provider.kinds.mpi_operator.mpijob import MPIJOB_V1, MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.objects.labels import meta_of
from airflow_trainer_provider.spec import parse_spec
from tests.cluster.access import Access
from tests.cluster.jobs import wait_until
from tests.cluster.paths import HERE

IDENTITY = Identity(dag_id="kinds", run_id="now", task_id="train")
WORKER, TINY = "trainer.test/worker:test", "trainer.test/tiny:test"
#: Ends at once when it is asked to.
SLEEP = 'trap "exit 143" TERM; sleep 120 & wait "$!"'
#: The launcher of torch 1.13 spells its options the old way.
TORCHRUN = ["torchrun", "--no_python"]
MPI = pytest.mark.profile("mpi")


def python(script: str) -> dict[str, Any]:
    command = ["python3", f"/scripts/{script}_training.py"]
    return {"num_nodes": 2, "image": WORKER, "command": command, "env": {"EXPECTED_WORLD_SIZE": "2"}}


def shell(script: str, nodes: int = 2) -> dict[str, Any]:
    return {"num_nodes": nodes, "image": TINY, "launcher": "none", "command": ["sh", "-c", script]}


@dataclass
class Run:
    """A job that a kind wrote, on the real cluster."""

    kind: Kind
    cluster: Access
    namespace: str

    @property
    def resource(self) -> str:
        group, _, version = self.kind.resource.api_version.rpartition("/")
        return f"{self.kind.resource.plural}.{version}.{group}"

    def start(self, **fields: Any) -> None:
        framework = next(iter(self.kind.frameworks))
        template = {
            "spec": {
                "volumes": [{"name": "scripts", "configMap": {"name": "scripts"}}],
                "containers": [{"name": framework, "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}]}],
            }
        }
        policy = {"grace_period_seconds": 2, **fields.pop("run_policy", {})}
        spec = parse_spec({"framework": framework, "pod_template": template, "run_policy": policy, **fields})
        job = plan_job(spec)
        renderer = self.kind.renderer
        renderer.check(job)
        where = f"--namespace={self.namespace}"
        self.cluster.kubectl(
            "create", "configmap", "scripts", where, f"--from-file={HERE / 'job_manifests' / 'scripts'}"
        )
        self.cluster.kubectl.apply([renderer.render(job, meta_of(job, IDENTITY, "train"), Facts()).main], where)

    def until(self, *phases: JobPhase | None, running: bool = False) -> tuple[Manifest, ControllerStatus]:
        def reached(main: Manifest) -> bool:
            if self.kind.read(main, ()).phase not in phases:
                return False
            pods = self.pods(main)
            wanted = sum(self.kind.groups(main).values())
            return not running or [pod["status"]["phase"] for pod in pods.values()] == ["Running"] * wanted

        main = wait_until(self.cluster.kubectl, self.resource, "train", self.namespace, reached, seconds=720)
        return main, self.kind.read(main, ())

    def end(self) -> tuple[Manifest, ControllerStatus]:
        return self.until(JobPhase.SUCCEEDED, JobPhase.FAILED)

    def pods(self, main: Manifest) -> dict[str, Manifest]:
        """Replica -> its pod."""
        found = self.cluster.kubectl.list("pods", self.namespace, f"{self.kind.pod_label}=train")
        refs = [(self.kind.replica_ref(pod, main), pod) for pod in found]
        return {ref.name: pod for ref, pod in refs if ref}

    def suspend(self, suspended: bool) -> None:
        patch = json.dumps(self.kind.suspension.patch(suspended))
        where = f"--namespace={self.namespace}"
        self.cluster.kubectl("patch", self.resource, "train", where, "--type=merge", "-p", patch)


def message(pod: Manifest) -> str:
    return str(pod["status"]["containerStatuses"][0]["state"]["terminated"].get("message", ""))


@pytest.mark.parametrize(
    ("kind", "fields", "groups", "result"),
    [
        pytest.param(
            PYTORCHJOB,
            {**python("torch"), "command": [*TORCHRUN, *python("torch")["command"]]},
            {"master": 1, "worker": 1},
            True,
            id="pytorchjob",
        ),
        pytest.param(
            PYTORCHJOB,
            {**python("torch"), "num_nodes": None, "launcher": "none", "replicas": {"worker": {"replicas": 2}}},
            {"worker": 2},
            True,
            id="pytorchjob-workers",
        ),
        pytest.param(TFJOB, python("tensorflow"), {"chief": 1, "worker": 1}, True, id="tfjob"),
        pytest.param(
            TFJOB,
            shell('echo "$TF_CONFIG" | grep -q chief', nodes=1),
            {"chief": 1},
            False,
            id="tfjob-alone",
        ),
        pytest.param(XGBOOSTJOB, python("xgboost"), {"master": 1, "worker": 1}, True, id="xgboostjob"),
        pytest.param(
            XGBOOSTJOB,
            shell('test "$DMLC_TASK_ID" = "$RANK" && test -n "$DMLC_TRACKER_URI"'),
            {"master": 1, "worker": 1},
            False,
            id="xgboostjob-environment",
        ),
        pytest.param(
            PADDLEJOB,
            shell('test "worker-$PADDLE_RANK" = "$TRAINER_REPLICA" && test -n "$PADDLE_MASTER"'),
            {"worker": 2},
            False,
            id="paddlejob",
        ),
        pytest.param(
            JAXJOB,
            shell('test "$JAX_PROCESS_ID" = "$PROCESS_ID" && test "$JAX_NUM_PROCESSES" = 2'),
            {"worker": 2},
            False,
            id="jaxjob",
        ),
        pytest.param(MPIJOB_V1, python("mpi"), {"launcher": 1, "worker": 2}, True, id="mpijob-v1"),
        pytest.param(MPIJOB_V2BETA1, python("mpi"), {"launcher": 1, "worker": 2}, True, id="mpijob-v2beta1", marks=MPI),
    ],
)
def test_a_job_trains(kind, fields, groups, result, cluster, namespace):
    run = Run(kind, cluster, namespace)
    run.start(**fields)

    main, controller = run.end()

    assert controller.phase is JobPhase.SUCCEEDED
    assert list(kind.groups(main).items()) == list(groups.items())
    leader = run.pods(main)[f"{next(iter(groups))}-0"]
    assert ("metrics" in message(leader)) is result


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        pytest.param(JAXJOB, shell(f'[ "$TRAINER_REPLICA" != worker-1 ] || exit 3; {SLEEP}'), id="jaxjob"),
        pytest.param(MPIJOB_V1, {**python("mpi"), "env": {"EXPECTED_WORLD_SIZE": "9"}}, id="mpijob-v1"),
        pytest.param(
            MPIJOB_V2BETA1, {**python("mpi"), "env": {"EXPECTED_WORLD_SIZE": "9"}}, id="mpijob-v2beta1", marks=MPI
        ),
    ],
)
def test_no_pod_outlives_a_failure(kind, fields, cluster, namespace):
    run = Run(kind, cluster, namespace)
    run.start(**fields)

    _, controller = run.end()

    assert controller.phase is JobPhase.FAILED
    wait_until(
        cluster.kubectl,
        run.resource,
        "train",
        namespace,
        lambda main: all(pod["status"]["phase"] == "Failed" for pod in run.pods(main).values()),
        seconds=90,
    )


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        pytest.param(JAXJOB, shell(SLEEP), id="jaxjob"),
        pytest.param(MPIJOB_V2BETA1, {**python("mpi"), "command": ["sh", "-c", SLEEP]}, id="mpijob-v2beta1", marks=MPI),
    ],
)
def test_the_cluster_knows_the_deadline(kind, fields, cluster, namespace):
    run = Run(kind, cluster, namespace)
    run.start(**fields, run_policy={"active_deadline_seconds": 3.5})

    main, controller = run.end()

    assert controller.phase is JobPhase.FAILED
    # The pods have the deadline too: what the controller sees first is chance.
    assert "DeadlineExceeded" in (controller.reason, *(pod["status"].get("reason") for pod in run.pods(main).values()))
    # The command sleeps for two minutes, and nothing else happens to its pods.
    assert controller.started_at is not None
    assert controller.finished_at is not None
    assert (controller.finished_at - controller.started_at).total_seconds() < 60


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        pytest.param(JAXJOB, shell(SLEEP), id="jaxjob"),
        pytest.param(MPIJOB_V2BETA1, {**python("mpi"), "command": ["sh", "-c", SLEEP]}, id="mpijob-v2beta1", marks=MPI),
    ],
)
def test_a_suspended_job_goes_on(kind, fields, cluster, namespace):
    run = Run(kind, cluster, namespace)
    run.start(**fields)
    run.until(None, running=True)

    run.suspend(True)
    run.until(JobPhase.SUSPENDED)
    # The Training Operator takes pods that are still going as failed, once the job goes on.
    wait_until(cluster.kubectl, run.resource, "train", namespace, lambda main: not run.pods(main), seconds=180)
    run.suspend(False)

    main, _ = run.until(None, running=True)
    assert run.pods(main)
