"""Each cluster backend, held to the contract on the real cluster."""

from __future__ import annotations

import json
import os
import textwrap
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.job_object import ClusterLocation
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.spec import parse_spec
from tests.cluster import verdicts
from tests.cluster.access import Access
from tests.cluster.jobs import resource_name
from tests.cluster.verdicts import VERDICTS_VARIABLE
from tests.contract.conftest import PRELUDE, Contract

FOLDER = "/shared"


@dataclass
class ClusterCase:
    """A cluster backend; its pods see the test's folder through the node's file system."""

    backend: ClusterBackend
    shared: Path
    access: Access
    namespace: str
    leader = "worker-0"
    timeout = 270
    # Most looks are a process of kubectl.
    pause = 0.2
    notices_within = 60
    measures_memory = False
    asks_to_end = True

    @property
    def speakers(self) -> list[str]:
        """The replicas that run the snippet, of the smallest job that has several where the backend can."""
        return ["worker-0", "worker-1"]

    @property
    def restarts_all(self) -> bool:
        return self.backend.name == "trainer"

    @property
    def restarts_by_exit_code(self) -> bool:
        return self.backend.name in ("trainer", "native")

    @property
    def adds_restarts_up(self) -> bool:
        return self.backend.name == "training-operator"

    def job(self, snippet: str, nodes: int = 2, **fields: Any) -> JobPlan:
        script = PRELUDE + textwrap.dedent(snippet)
        variable = fields.pop("variable", None)
        env = [{"name": variable.pop("name"), "valueFrom": variable}] if variable else []
        policy = {"grace_period_seconds": 2, **fields.pop("run_policy", {})}
        values = {
            "framework": "jax",
            "num_nodes": nodes,
            "image": "trainer.test/worker:test",
            "command": ["python3", "-u", "-c", script],
            "env": {"SHARED": FOLDER, **fields.pop("env", {})},
            "run_policy": policy,
            # Pods that ask for nothing get no more than the rest of a busy machine.
            "resources_per_node": {"cpu": {"requests": "50m"}, **fields.pop("resources_per_node", {})},
            "pod_template": {
                "spec": {
                    **fields.pop("pod_spec", {}),
                    # Not the first process of its container, which signals reach only where it handles them.
                    "shareProcessNamespace": True,
                    "volumes": [
                        {"name": "shared", "hostPath": {"path": str(self.shared)}},
                        *fields.pop("pod_volumes", ()),
                    ],
                    "containers": [
                        {
                            **fields.pop("container", {}),
                            "name": "train",
                            "volumeMounts": [{"name": "shared", "mountPath": FOLDER}, *fields.pop("mounts", ())],
                            "env": env,
                        },
                        *fields.pop("sidecars", ()),
                    ],
                }
            },
        }
        job = plan_job(parse_spec(self._laid_out(values | fields)))
        self.backend.check(job)
        return job

    def _laid_out(self, values: dict[str, Any]) -> dict[str, Any]:
        return values

    def processes(self, handle: JobHandle) -> int:
        return sum(pod["status"].get("phase") not in ("Succeeded", "Failed") for pod in self._pods(handle))

    def pods(self, handle: JobHandle) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._pods(handle)]

    def interrupt(self, handle: JobHandle) -> None:
        self.access.kubectl.evict(self.pods(handle)[0], self.namespace, grace=None)

    def main(self, handle: JobHandle) -> dict[str, Any] | None:
        return self.access.kubectl.get(resource_name(handle), handle.name, self.namespace)

    def limits(self, handle: JobHandle) -> list[dict[str, str]]:
        """The limits of each pod's training."""
        return [pod["spec"]["containers"][0]["resources"].get("limits", {}) for pod in self._pods(handle)]

    def delete(self, handle: JobHandle) -> None:
        self.access.kubectl("delete", resource_name(handle), handle.name, f"--namespace={self.namespace}")

    def patch(self, handle: JobHandle, patch: dict[str, Any]) -> None:
        where = f"--namespace={self.namespace}"
        self.access.kubectl(
            "patch", resource_name(handle), handle.name, where, "--type=merge", f"--patch={json.dumps(patch)}"
        )

    def _pods(self, handle: JobHandle) -> list[dict[str, Any]]:
        label = ClusterLocation.of(handle).kind.pod_label
        return self.access.kubectl.list("pods", self.namespace, f"{label}={handle.name}")


@dataclass
class MpiCase(ClusterCase):
    """The launcher alone runs the snippet; what mpirun starts on the workers is the business of other tests."""

    leader = "launcher-0"

    @property
    def speakers(self) -> list[str]:
        return [self.leader]

    def _laid_out(self, values: dict[str, Any]) -> dict[str, Any]:
        if values["num_nodes"] != 1:
            pytest.skip("mpirun starts the other processes, and their lines come from the launcher")
        resources = values.pop("resources_per_node", None)
        launcher = {"resources": resources} if resources else {}
        return {**values, "framework": "mpi", "launcher": "none", "replicas": {"launcher": launcher}}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    # The test's own folders are closed to others, and a pod's user may be another one.
    for each in (folder, *folder.parents[:3]):
        each.chmod(0o777)
    return folder


@pytest.fixture(
    params=[
        "trainer",
        "training-operator",
        "native",
        pytest.param("mpi-operator", marks=pytest.mark.profile("mpi")),
    ]
)
async def backend_case(
    request: pytest.FixtureRequest, cluster: Access, namespace: str, shared: Path
) -> AsyncIterator[ClusterCase]:
    connection = ClusterConnection(id=f"test-{uuid.uuid4().hex[:6]}", kube_config_path=str(cluster.kubectl.kubeconfig))
    connected = await Cluster.of(connection)
    case = MpiCase if request.param == "mpi-operator" else ClusterCase
    yield case(ClusterBackend(request.param, connected, namespace), shared, cluster, namespace)
    await connected.close()


@pytest.fixture
def contract(backend_case: ClusterCase) -> Contract:
    return Contract(backend_case)


@pytest.fixture
def record_verdict() -> Callable[[str, str, Diagnosis], None]:
    """Function (failure, backend, diagnosis) that keeps a verdict for the docs' table, or compares it."""

    def record(failure: str, backend: str, diagnosis: Diagnosis) -> None:
        row = {
            "failure": failure,
            "backend": backend,
            "message": diagnosis.message,
            "retry": diagnosis.retry_can_help,
            "way_out": diagnosis.way_out or "",
        }
        path = os.environ.get(VERDICTS_VARIABLE)
        if path:
            with Path(path).open("a") as file:
                file.write(json.dumps(row) + "\n")
        else:
            assert verdicts.difference(row, verdicts.PAGE.read_text()) is None

    return record
