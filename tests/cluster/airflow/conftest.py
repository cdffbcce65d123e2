"""One real Airflow on the real cluster. Each component has the account of deploy/rbac.yaml that is for it, no other."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from airflow_trainer_provider.kinds.registry import BACKENDS
from tests.airflow.conftest import QUICK_TO_NOTICE
from tests.airflow.jobs import SCRIPT, JobFolder
from tests.cluster.access import Access
from tests.cluster.account import WORKER, airflows_accounts, token_of, with_token, without_accounts
from tests.cluster.airflow.side_by_side import SideBySide
from tests.cluster.paths import HERE, ROOT
from tests.scale import FULL
from tools.airflow_runner import AirflowInstance

#: The accounts of the components beside the workers. The DAG processor has none.
_ACCOUNTS = {"scheduler": "trainer-listener", "api-server": "trainer-listener", "triggerer": "trainer-triggerer"}
_CONNECTION = "kubernetes_default"
#: When Airflow gives a task its next try, in seconds. On two busy cores some heartbeats come late, and with twenty jobs
#: a restart of an API server takes longer than with three.
HEARTBEAT_TIMEOUT = 60 if FULL else 45
_NOTICE = {
    **QUICK_TO_NOTICE,
    "scheduler": {**QUICK_TO_NOTICE["scheduler"], "task_instance_heartbeat_timeout": str(HEARTBEAT_TIMEOUT)},
    "workers": {"max_failed_heartbeats": "30" if FULL else "3"},
}
#: For ten tasks that wait on their workers, and twenty that are deferred.
_ROOM = {"core": {"parallelism": "12", "max_active_runs_per_dag": "32", "max_active_tasks_per_dag": "32"}}


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

    def run(self, dag_id: str, backend: str, **params: object) -> str:
        """Start a run on a backend."""
        return self.airflow.trigger_dag(dag_id, {"backend": backend, "namespace": self.namespace, **params})

    @cached_property
    def job_kinds(self) -> list[str]:
        """The kinds of jobs that this cluster has, as kubectl takes them."""
        served = self.access.kubectl("api-resources", "--output=name").split()
        resources = {kind.resource for kinds in BACKENDS.values() for kind in kinds}
        names = {f"{each.plural}.{each.api_version.rpartition('/')[0]}".rstrip(".") for each in resources}
        return sorted(names & set(served))


@pytest.fixture(scope="session")
def session_namespace(any_cluster: Access) -> Iterator[str]:
    """A namespace with the training scripts, and the service accounts that Airflow has."""
    name = f"trainer-test-airflow-{uuid.uuid4().hex[:6]}"
    kubectl, where = any_cluster.kubectl, f"--namespace={name}"
    kubectl("create", "namespace", name)
    files = [f"--from-file={HERE / 'job_manifests' / 'scripts'}", f"--from-file={SCRIPT}"]
    kubectl("create", "configmap", "scripts", where, *files)
    kubectl.apply(airflows_accounts(name), where)
    yield name
    without_accounts(any_cluster, name)


@pytest.fixture(scope="session")
def another_namespace(any_cluster: Access, session_namespace: str) -> Iterator[str]:
    """A second namespace in which the workers' account has its rights too."""
    name = f"{session_namespace}-2"
    kubectl, where = any_cluster.kubectl, f"--namespace={name}"
    kubectl("create", "namespace", name)
    kubectl("create", "configmap", "scripts", where, f"--from-file={SCRIPT}")
    kubectl.apply(airflows_accounts(name), where)
    account = f"--serviceaccount={session_namespace}:{WORKER}"
    kubectl("create", "rolebinding", "worker-of-another", where, f"--role={WORKER}", account)
    yield name
    without_accounts(any_cluster, name)


@pytest.fixture(scope="session")
def tokens(any_cluster: Access, session_namespace: str) -> dict[str, str]:
    """Service account -> a token of it."""
    accounts = {WORKER, *_ACCOUNTS.values()}
    return {each: token_of(any_cluster, session_namespace, each, "--duration=2h") for each in accounts}


@pytest.fixture(scope="session")
def planted() -> str:
    """The prefix of all secrets in dags/secrets.py. Only the environment of Airflow contains it."""
    return f"Planted7{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def on_cluster(
    any_cluster: Access,
    session_namespace: str,
    tokens: dict[str, str],
    planted: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OnCluster]:
    """A running Airflow whose connection kubernetes_default leads to the cluster, with another account in each part."""
    connections = {
        account: {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(with_token(any_cluster, token))}}
        for account, token in tokens.items()
    }
    variable = f"AIRFLOW_CONN_{_CONNECTION.upper()}"
    env_of = {component: {variable: json.dumps(connections[account])} for component, account in _ACCOUNTS.items()}
    # Workers inherit the scheduler's variables; before these they ask a secrets backend of their own.
    file = tmp_path_factory.mktemp("workers") / "connections.json"
    file.write_text(json.dumps({_CONNECTION: connections[WORKER]}))
    env_of["scheduler"] |= {
        "AIRFLOW__WORKERS__SECRETS_BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "AIRFLOW__WORKERS__SECRETS_BACKEND_KWARGS": json.dumps({"connections_file_path": str(file)}),
    }
    home = tmp_path_factory.mktemp("airflow") / "home"
    folders = [Path(__file__).parent / "dags", ROOT / "dags"]
    env, config = {"AIRFLOW_VAR_PLANTED": planted}, _NOTICE | _ROOM
    with AirflowInstance(home, folders, config=config, env=env, env_of=env_of) as airflow:
        yield OnCluster(airflow, any_cluster, session_namespace)


@contextmanager
def job_folder(path: Path) -> Iterator[JobFolder]:
    """Where a test job meets its test; it comes to its end with the test.

    :param path: exists.
    """
    # Closed to others by default, and a pod's user may be another one.
    for each in (path, *path.parents[:2]):
        each.chmod(0o777)
    folder = JobFolder(path)
    try:
        yield folder
    finally:
        folder.go()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[JobFolder]:
    """Where a test job meets its test."""
    with job_folder(tmp_path) as folder:
        yield folder


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], AbstractContextManager[JobFolder]]:
    """Function that makes such a folder for each case of several that go side by side."""
    return lambda: job_folder(tmp_path_factory.mktemp("case"))


@pytest.fixture(scope="session")
def all_cases() -> Iterator[SideBySide]:
    """What runs the cases of tests side by side."""
    cases = SideBySide()
    yield cases
    cases.close()


@pytest.fixture
def side_by_side(cluster: Access, all_cases: SideBySide, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Function (body): runs it for the parameters of this case, and at the same time for those of the test's others."""
    return lambda body, at_once=3: all_cases.run(body, request.node, at_once)
