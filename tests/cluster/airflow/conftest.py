"""One real Airflow, whose connection leads to the real cluster with the rights of deploy/rbac.yaml and no others."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.airflow.conftest import QUICK_TO_NOTICE
from tests.airflow.jobs import SCRIPT, JobFolder
from tests.cluster.access import Access
from tests.cluster.paths import HERE, ROOT
from tools.airflow_runner import AirflowInstance

_ACCOUNT = "trainer-worker"


@dataclass
class OnCluster:
    """An Airflow and the namespace that its jobs run in.

    :param airflow: the instance.
    :param access: the cluster, as its administrator.
    :param namespace: where the jobs run.
    """

    airflow: AirflowInstance
    access: Access
    namespace: str

    def run(self, dag_id: str, backend: str, **params: str) -> str:
        """Start a run on a backend."""
        return self.airflow.trigger_dag(dag_id, {"backend": backend, "namespace": self.namespace, **params})


@pytest.fixture(scope="session")
def session_namespace(any_cluster: Access) -> Iterator[str]:
    """A namespace with the training scripts, and the service account that Airflow has."""
    name = f"trainer-test-airflow-{uuid.uuid4().hex[:6]}"
    kubectl, where = any_cluster.kubectl, f"--namespace={name}"
    kubectl("create", "namespace", name)
    files = [f"--from-file={HERE / 'smoke' / 'scripts'}", f"--from-file={SCRIPT}"]
    kubectl("create", "configmap", "scripts", where, *files)
    rights = (ROOT / "deploy" / "rbac.yaml").read_text().replace("namespace: training", f"namespace: {name}")
    kubectl.apply(list(yaml.safe_load_all(rights)), where)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def token(any_cluster: Access, session_namespace: str) -> str:
    """The token of that service account."""
    where = f"--namespace={session_namespace}"
    return any_cluster.kubectl("create", "token", _ACCOUNT, where, "--duration=2h").strip()


@pytest.fixture(scope="session")
def kubeconfig(any_cluster: Access, token: str) -> dict[str, Any]:
    """A kubeconfig of that service account."""
    config: dict[str, Any] = yaml.safe_load(Path(any_cluster.kubectl.kubeconfig).read_text())
    cluster = config["clusters"][0]["name"]
    return {
        **config,
        "users": [{"name": "airflow", "user": {"token": token}}],
        "contexts": [{"name": "airflow", "context": {"cluster": cluster, "user": "airflow"}}],
        "current-context": "airflow",
    }


@pytest.fixture(scope="session")
def on_cluster(
    any_cluster: Access,
    session_namespace: str,
    kubeconfig: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OnCluster]:
    """A running Airflow whose connection kubernetes_default leads to the cluster."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(kubeconfig)}}
    env = {"AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection)}
    home = tmp_path_factory.mktemp("airflow") / "home"
    folders = [Path(__file__).parent / "dags", ROOT / "dags"]
    with AirflowInstance(home, folders, config=QUICK_TO_NOTICE, env=env) as airflow:
        yield OnCluster(airflow, any_cluster, session_namespace)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[JobFolder]:
    """Where a test job meets its test; it comes to its end with the test."""
    # Closed to others by default, and a pod's user may be another one.
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o777)
    folder = JobFolder(tmp_path)
    yield folder
    folder.go()
