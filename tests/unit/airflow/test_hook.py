"""The hook finds the backend: named, chosen by what a cluster has, or by a job's handle alone."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.errors import ApiError, BackendUnavailable, SpecError
from airflow_trainer_provider.frameworks.layout import lay_out
from airflow_trainer_provider.hooks.backends import AUTO, BACKENDS, LOCAL
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.kinds import registry
from airflow_trainer_provider.kinds.mpijob import MPIJOB_V1, MPIJOB_V2BETA1
from airflow_trainer_provider.kinds.native import NATIVE
from airflow_trainer_provider.kinds.training_operator import PYTORCHJOB
from airflow_trainer_provider.kinds.trainjob import TRAINJOB
from airflow_trainer_provider.spec import parse_spec

IDENTITY = Identity(dag_id="d", run_id="r", task_id="t", try_number=2)
HANDLE = JobHandle(
    name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="native/ml/kube/1"
)
LOCAL_HANDLE = HANDLE.model_copy(update={"backend": "local", "location": "/l"})
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SUCCEEDED = JobStatus(phase=JobPhase.SUCCEEDED, queued_at=NOW)
FAILED = JobStatus(
    phase=JobPhase.FAILED,
    queued_at=NOW,
    first_failed="worker-0",
    replicas=(ReplicaStatus(group="worker", index=0, exit_code=1, reason="Error", finished_at=NOW),),
)


class _Cluster:
    """A cluster that has some kinds."""

    def __init__(self, connection, kinds):
        self.connection, self.kinds = connection, kinds

    async def serves(self, resource):
        return resource in [kind.resource for kind in self.kinds]


@pytest.fixture
def clusters(monkeypatch):
    """What the cluster has; and the connections by which it was reached."""
    case = SimpleNamespace(kinds=[], connections={"kube": None, "kube/1": None}, reached=[])

    async def of(connection):
        case.reached.append(connection.id)
        return _Cluster(connection, case.kinds)

    async def read(conn_id):
        if conn_id not in case.connections:
            raise AirflowNotFoundException(conn_id)
        return ClusterConnection(id=conn_id, namespace=case.connections[conn_id])

    monkeypatch.setattr(Cluster, "of", of)
    case.hook = lambda backend, namespace=None: TrainerHook(backend, "kube", namespace, read)
    return case


def _job(**fields):
    values = {"framework": "pytorch", "num_nodes": 2, "image": "i", "command": ["python", "train.py"]}
    return lay_out(parse_spec({**values, **fields}))


def test_every_backend_of_the_registry_can_be_named():
    assert list(BACKENDS) == [LOCAL, *registry.BACKENDS]


@pytest.mark.parametrize("kinds", [[NATIVE, PYTORCHJOB, TRAINJOB], [NATIVE, PYTORCHJOB], [NATIVE]])
async def test_auto_takes_the_first_that_the_cluster_has_and_says_why(clusters, kinds):
    clusters.kinds = kinds
    names = {TRAINJOB: "trainer", PYTORCHJOB: "training-operator", NATIVE: "native"}

    chosen = await clusters.hook(AUTO).choose(_job())

    assert chosen.backend.name == names[kinds[-1]]
    assert f"took {names[kinds[-1]]}: {kinds[-1].resource.kind} is installed" in chosen.why
    assert ("not trainer: CRD trainjobs.trainer.kubeflow.org is not installed" in chosen.why) == (TRAINJOB not in kinds)


@pytest.mark.parametrize(("kind", "name"), [(MPIJOB_V1, "training-operator"), (MPIJOB_V2BETA1, "mpi-operator")])
async def test_auto_tells_the_two_versions_of_mpijob_apart(clusters, kind, name):
    clusters.kinds = [NATIVE, PYTORCHJOB, kind]

    chosen = await clusters.hook(AUTO).choose(_job(framework="mpi"))

    assert chosen.backend.name == name


async def test_auto_passes_over_what_cannot_express_a_field(clusters):
    clusters.kinds = [NATIVE, PYTORCHJOB]

    chosen = await clusters.hook(AUTO).choose(_job(framework="paddle", num_nodes=2))

    assert chosen.backend.name == "native"
    assert "not mpi-operator: framework: got 'paddle'" in chosen.why


async def test_auto_without_any_that_will_do_says_why_of_each(clusters):
    with pytest.raises(BackendUnavailable) as caught:
        await clusters.hook(AUTO).choose(_job())

    assert all(f"not {name}: " in str(caught.value) for name in registry.BACKENDS)


@pytest.mark.parametrize("backend", [AUTO, "trainer"])
async def test_without_a_connection_the_error_names_the_way_out(clusters, backend):
    clusters.connections.clear()

    with pytest.raises(
        BackendUnavailable, match=rf"backend='{backend}'.*no connection 'kube'.*never chosen silently.*backend='local'"
    ):
        await clusters.hook(backend).choose(_job())


async def test_a_backend_that_is_none_is_an_error(clusters):
    with pytest.raises(SpecError, match="Did you mean 'local'"):
        await clusters.hook("lcoal").choose(_job())


@pytest.mark.parametrize(
    ("operators", "connections", "expected"),
    [("mine", "theirs", "mine"), (None, "theirs", "theirs"), (None, None, "default")],
)
async def test_the_namespace_is_the_operators_or_the_connections_or_the_option(
    clusters, operators, connections, expected
):
    clusters.connections["kube"] = connections

    text = await clusters.hook("training-operator", operators).render(_job(), IDENTITY)

    assert {document["metadata"]["namespace"] for document in yaml.safe_load_all(text)} == {expected}


async def test_a_named_backends_job_is_shown_without_a_cluster_or_a_connection(clusters):
    clusters.connections.clear()

    text = await clusters.hook("training-operator").render(_job(), IDENTITY)

    assert "PyTorchJob" in text
    assert clusters.reached == []


async def test_a_handle_alone_leads_to_the_job(clusters):
    backend = await clusters.hook(LOCAL).backend_of(HANDLE)

    assert backend.name == "native"
    assert clusters.reached == ["kube/1"]


async def test_a_job_has_one_backend_which_remembers_it(clusters):
    hook = clusters.hook(LOCAL)

    assert await hook.backend_of(HANDLE) is await hook.backend_of(HANDLE)
    assert await hook.backend_of(LOCAL_HANDLE) is not await hook.backend_of(HANDLE)


class _Backend:
    def __init__(self, trouble=None):
        self.trouble, self.cancelled = trouble, []

    async def result(self, handle):
        return b'{"metrics": {"loss": 0.5}}'

    async def log_tail(self, handle, replica, lines):
        if self.trouble:
            raise self.trouble
        return ["Traceback (most recent call last):", '  File "a", line 1, in a', "ValueError: no"]

    async def find(self, identity):
        return [HANDLE.model_copy(update={"owner": identity.try_number})]

    async def cancel(self, handle, reason):
        self.cancelled.append((handle.owner, reason))


def _with(backend):
    hook = TrainerHook(LOCAL)

    async def backend_of(handle):
        return backend

    hook.backend_of = backend_of
    return hook


async def test_the_conclusion_of_a_success_holds_all_that_xcom_gets():
    conclusion = await _with(_Backend()).conclude(HANDLE, SUCCEEDED)

    assert conclusion.failure is None
    assert (conclusion.summary["name"], conclusion.summary["metrics"]) == ("j", {"loss": 0.5})


async def test_the_conclusion_of_a_failure_holds_the_diagnosis():
    conclusion = await _with(_Backend()).conclude(HANDLE, FAILED)

    assert conclusion.summary is None
    assert conclusion.failure.traceback[-1] == "ValueError: no"


async def test_a_failure_is_told_though_its_lines_are_out_of_reach():
    conclusion = await _with(_Backend(ApiError("the node is gone"))).conclude(HANDLE, FAILED)

    assert conclusion.failure.replica == "worker-0"
    assert conclusion.failure.last_log_lines == ()


async def test_a_tasks_jobs_are_ended_where_its_handle_says():
    backend = _Backend()

    await _with(backend).cancel_task(IDENTITY, "why", HANDLE)

    assert backend.cancelled == [(2, "why")]
