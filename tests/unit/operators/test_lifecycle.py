"""The operators that suspend, resume and delete jobs, without a cluster."""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks import connection, loop
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import parse_spec
from tests.fakes.jobs import add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

JAXJOBS = KINDS["jaxjob"].resource.plural
OPERATORS = [
    provider.SuspendTrainJobOperator,
    provider.ResumeTrainJobOperator,
    provider.DeleteTrainJobOperator,
]
CONTEXT = {"ti": SimpleNamespace(dag_id="nightly", task_id="make_room")}


@pytest.fixture
def cluster(monkeypatch):
    """A cluster to which the connection `lab` leads."""
    with FakeKubernetes().in_a_thread() as api:
        extra = {"kube_config": api.kubeconfig(), "namespace": NAMESPACE}
        monkeypatch.setenv("AIRFLOW_CONN_LAB", json.dumps({"conn_type": "kubernetes", "extra": extra}))
        # What this process remembers of connections and clusters would outlive this one.
        loop.run(_forget())
        yield api
        loop.run(Cluster.close_all())


async def _forget():
    connection._known.pop(asyncio.get_running_loop(), None)


def _operator(operator, **fields):
    with DAG("nightly", schedule=None):
        return operator(task_id="make_room", **fields)


def _by_name(operator, **fields):
    return _operator(operator, name="j", kubernetes_conn_id="lab", **fields)


def _handle(uid):
    return {
        "name": "j",
        "uid": uid,
        "backend": "training-operator",
        "framework": "jax",
        "leader": "worker-0",
        "owner": 3,
        "location": f"jaxjob/{NAMESPACE}/lab",
    }


@pytest.mark.parametrize("by_handle", [False, True])
def test_a_job_is_suspended_and_resumed(cluster, by_handle, capsys):
    uid = add_job(cluster, "jaxjob", "j")["metadata"]["uid"]
    target = {"job": _handle(uid)} if by_handle else {"name": "j", "kubernetes_conn_id": "lab"}

    for operator in [*OPERATORS[:2], OPERATORS[1]]:
        _operator(operator, **target).execute(CONTEXT)

    suspend, resume = ({"spec": {"runPolicy": {"suspend": wanted}}} for wanted in (True, False))
    assert cluster.patches == [(f"{JAXJOBS}/j", suspend), (f"{JAXJOBS}/j", resume)]
    output = capsys.readouterr().out
    assert "Suspended jaxjob j in namespace team." in output
    assert "Resumed jaxjob j in namespace team." in output
    assert "The jaxjob j in namespace team is not suspended." in output


def test_what_was_suspended_already_stays_so(cluster, capsys):
    add_job(cluster, "jaxjob", "j", spec={"runPolicy": {"suspend": True}, "jaxReplicaSpecs": {"Worker": {}}})

    _by_name(provider.SuspendTrainJobOperator).execute(CONTEXT)

    assert cluster.writes == []
    assert "was suspended already" in capsys.readouterr().out


def test_suspending_need_not_wait_for_the_pods(cluster):
    add_job(cluster, "jaxjob", "j")
    add_pod(cluster, "j")

    _by_name(provider.SuspendTrainJobOperator, wait_until_stopped=False).execute(CONTEXT)

    assert len(cluster.patches) == 1


def test_deleting_need_not_wait_for_the_pods(cluster):
    add_pod(cluster, "j")

    _by_name(provider.DeleteTrainJobOperator, wait_until_gone=False).execute(CONTEXT)

    assert (cluster.names(JAXJOBS), cluster.names("pods")) == ([], ["j-worker-0"])


def test_a_deleted_job_names_who_deleted_it_and_deleting_again_is_no_error(cluster, capsys):
    uid = add_job(cluster, "jaxjob", "j", metadata=ours("j"))["metadata"]["uid"]
    operator = _operator(provider.DeleteTrainJobOperator, job=_handle(uid))

    operator.execute(CONTEXT)
    operator.execute(CONTEXT)

    (_, patch), output = cluster.patches[0], capsys.readouterr().out
    assert patch["metadata"]["annotations"] == {labels.CANCELLED: "deleted by task make_room of DAG nightly"}
    assert "Deleted jaxjob j" in output
    assert "Nothing to delete: Training job j is gone" in output


def test_another_job_of_the_name_is_left_alone(cluster):
    add_job(cluster, "jaxjob", "j")
    handle = _handle("before")

    _operator(provider.DeleteTrainJobOperator, job=handle).execute(CONTEXT)
    for operator in OPERATORS[:2]:
        with pytest.raises(AirflowException, match="another job has its name now"):
            _operator(operator, job=handle).execute(CONTEXT)

    assert cluster.writes == []


def test_a_job_that_has_ended_cannot_be_suspended_at_any_other_time_either(cluster):
    add_job(cluster, "jaxjob", "j", status=with_condition("Succeeded"))

    with pytest.raises(AirflowFailException, match="has ended"):
        _by_name(provider.SuspendTrainJobOperator).execute(CONTEXT)


def test_a_name_can_be_qualified_by_its_kind_and_its_namespace(cluster):
    add_job(cluster, "jaxjob", "j")
    add_job(cluster, "trainjob", "j")

    with pytest.raises(AirflowFailException, match="say which kind"):
        _by_name(provider.DeleteTrainJobOperator).execute(CONTEXT)
    with pytest.raises(AirflowException, match="namespace elsewhere"):
        _by_name(provider.SuspendTrainJobOperator, namespace="elsewhere").execute(CONTEXT)
    _by_name(provider.DeleteTrainJobOperator, kind="TrainJob").execute(CONTEXT)

    assert (cluster.names("trainjobs"), cluster.names(JAXJOBS)) == ([], ["j"])


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("target", [{}, {"job": "{}", "name": "j"}])
def test_one_job_is_named(operator, target):
    with pytest.raises(AirflowFailException, match="either job, a handle, or name"):
        _operator(operator, **target).execute(CONTEXT)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ["a"]}, "name: got 'list'; allowed: text"),
        ({"name": "a/b"}, "name: got 'a/b'"),
        ({"name": "a", "kind": {}}, "kind: got 'dict'; allowed: text"),
        ({"name": "a", "backend": "trianer"}, "Did you mean 'trainer'"),
        ({"name": "a", "namespace": "../kube-system"}, "namespace: got '../kube-system'"),
        ({"job": {"name": "j"}}, "job: got 'dict'"),
    ],
)
def test_a_wrong_field_is_refused(operator, fields, message):
    with pytest.raises(AirflowFailException, match=message):
        _operator(operator, **fields).execute(CONTEXT)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_target_is_templated(operator):
    task = _operator(operator, name="{{ params.name }}", namespace="{{ params.where }}", kind="{{ params.kind }}")

    task.render_template_fields({"params": {"name": "j", "where": "team", "kind": "JAXJob"}})

    assert (task.name, task.namespace, task.kind) == ("j", "team", "JAXJob")
    assert set(task.template_fields) == {"job", "name", "kind", "backend", "namespace", "kubernetes_conn_id"}


@pytest.fixture
def local_job(tmp_path, monkeypatch):
    """A handle of a local job that does not end by itself."""
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path))
    backend = LocalBackend(tmp_path, 0.05, None)
    job = plan_job(parse_spec({"framework": "jax", "command": [sys.executable, "-c", "import time; time.sleep(300)"]}))
    return backend, backend._submit(job, Identity(dag_id="d", run_id="r", task_id="t")).handle


@pytest.mark.local
def test_a_local_job_is_ended_and_neither_suspended_nor_resumed(local_job):
    backend, handle = local_job
    for operator in OPERATORS[:2]:
        with pytest.raises(AirflowFailException, match="runs on backend 'local', whose jobs cannot be suspended"):
            _operator(operator, job=handle.to_xcom()).execute(CONTEXT)

    _operator(provider.DeleteTrainJobOperator, job=handle.to_xcom()).execute(CONTEXT)

    status = backend._status(backend._folder(handle))
    assert status.text() == "cancelled (Cancelled: deleted by task make_room of DAG nightly)"
