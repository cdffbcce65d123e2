"""The operator that cleans up, without a cluster."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.hooks import loop
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder
from airflow_trainer_provider.spec import parse_spec
from tests.fakes.jobs import add_job, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

CONTEXT = {"ti": SimpleNamespace(dag_id="nightly", task_id="clean")}
HERE = "https://airflow.example"
NOW = datetime.now(timezone.utc)


@pytest.fixture(autouse=True)
def deployment(monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__DEPLOYMENT", HERE)


def operator(**fields):
    with DAG("nightly", schedule=None):
        return provider.CleanUpTrainJobsOperator(task_id="clean", **fields)


def add_folder(root, name, ended, *, collected=True, deployment=HERE, **policy):
    spec = parse_spec({"framework": "jax", "command": ["true"], "run_policy": policy})
    identity = Identity(dag_id="mnist", run_id="monday", task_id=name, deployment=deployment)
    folder = RunFolder(root / name)
    folder.create(JobRecord(uid=name, identity=identity, digest="", spec=spec))
    phase = JobPhase.SUCCEEDED if ended else JobPhase.RUNNING
    folder.write_status(JobStatus(phase=phase, queued_at=NOW, finished_at=ended))
    if collected:
        folder.collect()


def test_kept_jobs_of_all_kinds_go_with_the_rights_that_we_hand_out(monkeypatch):
    identity = Identity(dag_id="d", run_id="r", task_id="t", deployment=HERE).model_dump_json()
    done = {labels.IDENTITY: identity, labels.COLLECTED: "true"}
    with FakeKubernetes().in_a_thread() as api:
        extra = {"kube_config": api.kubeconfig(), "namespace": NAMESPACE}
        monkeypatch.setenv("AIRFLOW_CONN_CLEAN", json.dumps({"conn_type": "kubernetes", "extra": extra}))
        add_job(api, "jaxjob", "old", metadata=ours("old", **done), status=with_condition("Succeeded"))
        add_job(api, "trainjob", "old", metadata=ours("old", **done), status=with_condition("Complete"))
        add_job(api, "job", "old", metadata=ours("old", **done), status=with_condition("Failed"))
        add_job(api, "jaxjob", "theirs", status=with_condition("Succeeded"))
        fields = {"kubernetes_conn_id": "clean", "older_than": 60}

        listed = operator(list_only=True, **fields).execute(CONTEXT)
        assert api.writes == []
        deleted = operator(**fields).execute(CONTEXT)

        assert deleted == listed
        assert sorted((row["kind"], row["name"]) for row in deleted) == [
            ("jaxjob", "old"),
            ("job", "old"),
            ("trainjob", "old"),
        ]
        assert json.loads(json.dumps(deleted)) == deleted
        assert (api.names("jaxjobs"), api.names("trainjobs"), api.names("jobs")) == (["theirs"], [], [])
        assert operator(**fields).execute(CONTEXT) == []
        loop.run(Cluster.close_all())


def test_local_folders_go_by_age_and_by_their_own_time(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path))
    day = timedelta(days=1)
    add_folder(tmp_path, "old", NOW - 9 * day)
    add_folder(tmp_path, "uncollected", NOW - 9 * day, collected=False)
    add_folder(tmp_path, "new", NOW - day)
    add_folder(tmp_path, "lived", NOW - day, ttl_seconds_after_finished=0)
    add_folder(tmp_path, "runs", None)

    listed = operator(backend="local", list_only=True).execute(CONTEXT)
    assert len(list(tmp_path.iterdir())) == 5
    deleted = operator(backend="local").execute(CONTEXT)

    assert [row["name"] for row in deleted] == [row["name"] for row in listed] == ["lived", "old"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["new", "runs", "uncollected"]


@pytest.mark.parametrize("backend", [None, "native"])
def test_an_airflow_without_a_name_deletes_nothing_in_a_cluster(monkeypatch, backend):
    monkeypatch.setenv("AIRFLOW__TRAINER__DEPLOYMENT", "")
    identity = Identity(dag_id="d", run_id="r", task_id="t", deployment="").model_dump_json()
    done = {labels.IDENTITY: identity, labels.COLLECTED: "true"}
    with FakeKubernetes().in_a_thread() as api:
        extra = {"kube_config": api.kubeconfig(), "namespace": NAMESPACE}
        monkeypatch.setenv("AIRFLOW_CONN_CLEAN", json.dumps({"conn_type": "kubernetes", "extra": extra}))
        add_job(api, "job", "of-either", metadata=ours("of-either", **done), status=with_condition("Complete"))

        with pytest.raises(AirflowFailException, match=r"\[trainer\] deployment: got ''.* Set it, or \[api\] base_url"):
            operator(backend=backend, kubernetes_conn_id="clean", older_than=60).execute(CONTEXT)

        assert api.names("jobs") == ["of-either"]
        loop.run(Cluster.close_all())


def test_an_airflow_without_a_name_cleans_up_its_own_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW__TRAINER__DEPLOYMENT", "")
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path))
    add_folder(tmp_path, "old", NOW - timedelta(days=9), deployment="")

    assert [row["name"] for row in operator(backend="local").execute(CONTEXT)] == ["old"]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"older_than": "soon"}, "older_than"),
        ({"older_than": -1}, "older_than"),
        ({"older_than": timedelta(days=-1)}, "older_than"),
        ({"older_than": True}, "older_than"),
        ({"older_than": ""}, "Correct the template"),
        ({"list_only": "perhaps"}, "list_only"),
        # A template that came to nothing would have all jobs deleted.
        ({"list_only": ""}, "Correct the template"),
        ({"selector": ""}, "Correct the template"),
        ({"selector": "a=b", "backend": "local"}, "has no labels"),
        ({"backend": "nowhere"}, "backend"),
        ({"namespace": "A/B"}, "namespace"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_deleted(fields, found):
    with pytest.raises(AirflowFailException, match=found):
        operator(**fields).execute(CONTEXT)
