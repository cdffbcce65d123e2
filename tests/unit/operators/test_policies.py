"""A task's job is what policies allow, or it is refused before anything is created."""

from __future__ import annotations

import json
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock
from weakref import WeakKeyDictionary

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, BaseHook, Connection
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.errors import PolicyViolation, SubmitError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks import connection as connections
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.spec import parse_spec


@pytest.fixture
def context():
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, max_tries=0)
    return {"ti": ti, "params": {}}


@pytest.fixture
def policies(tmp_path, monkeypatch):
    """Function (name, rule, applies_to): writes a policy."""
    folder = tmp_path / "policies"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__TRAINER__POLICIES_FOLDER", str(folder))
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path / "jobs"))

    def write(name, rule, **applies_to):
        text = yaml.safe_dump({"applies_to": applies_to, "rules": [{"reason": "Because.", **rule}]})
        (folder / f"{name}.yaml").write_text(text)
        return folder / f"{name}.yaml"

    return write


@pytest.fixture
def connection(monkeypatch):
    """Function (namespace): the connection to a cluster has it."""

    def connect(namespace):
        extra = json.dumps({"namespace": namespace} if namespace else {})
        found = Connection(conn_id="kubernetes_default", conn_type="kubernetes", extra=extra)
        monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: found)
        # What earlier tests have read is known for half a minute.
        monkeypatch.setattr(connections, "_known", WeakKeyDictionary())

    return connect


def operator(tags=(), dag_id="d", **fields):
    with DAG(dag_id, schedule=None, tags=list(tags)):
        given = {"framework": "jax", "backend": "local", "command": ["true"], **fields}
        return provider.TrainJobOperator(task_id="train", render_only=True, **given)


def test_a_job_that_a_policy_does_not_allow_fails_for_good_and_starts_nothing(context, policies, tmp_path):
    file = policies("one", {"field": "num_nodes", "max": 2})

    with pytest.raises(AirflowFailException) as caught:
        operator(num_nodes=3).execute(context)

    assert f"num_nodes: got 3; allowed: at most 2. Reason: Because. (policy {file})" in str(caught.value)
    assert not (tmp_path / "jobs").exists()


def test_values_of_policies_are_filled_in_and_the_log_says_so(context, policies, capsys):
    default = policies("default", {"field": "run_policy.grace_period_seconds", "default": 7})
    locked = policies("locked", {"field": "env.MODE", "locked": "offline"})

    job = yaml.safe_load(operator().execute(context))

    assert job["run_policy"]["grace_period_seconds"] == 7
    assert job["replicas"][0]["env"]["MODE"] == "offline"
    line = f"from policy {default}: run_policy.grace_period_seconds; from policy {locked}: env.MODE."
    assert line in capsys.readouterr().out


def test_the_rendered_job_is_the_one_with_what_policies_fill_in(context, policies):
    policies("locked", {"field": "env.MODE", "locked": "offline"})
    task = operator()

    task.render_template_fields(context)

    assert yaml.safe_load(task.rendered_job)["replicas"][0]["env"]["MODE"] == "offline"


def test_what_is_checked_is_the_job_after_presets(context, policies, tmp_path, monkeypatch):
    (tmp_path / "large.yaml").write_text("num_nodes: 3\n")
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", str(tmp_path))
    policies("one", {"field": "num_nodes", "max": 2})

    with pytest.raises(PolicyViolation, match="at most 2"):
        operator(presets="large")._job()


@pytest.mark.parametrize(
    ("fields", "checked"),
    [
        ({"runtime_ref": "torch"}, True),
        ({"runtime_ref": "torch", "framework": "mpi"}, False),
        ({}, False),
    ],
)
def test_what_a_runtime_adds_is_checked_at_the_submit(context, policies, fields, checked):
    policies("one", {"field": "num_nodes", "max": 2}, frameworks=["jax"])
    given = {"backend": "trainer", "image": "i", "namespace": "team", "wait_for_completion": False, **fields}
    task = operator(**given)
    task.render_only = False
    task.hook = Mock(spec=TrainerHook, choose=AsyncMock(), namespace=AsyncMock(return_value="team"))
    backend = task.hook.choose.return_value.backend = Mock(check=Mock(), render=Mock(return_value=""))
    backend.submit = AsyncMock(side_effect=SubmitError("enough"))

    with pytest.raises(AirflowException, match="enough"):
        task.execute(context)

    admit = backend.submit.await_args.kwargs["admit"]
    assert (admit is not None) == checked
    if checked:
        admit(plan_job(parse_spec({"framework": "jax", "image": "i", "num_nodes": 2})))
        with pytest.raises(PolicyViolation, match=r"num_nodes \(of runtime_ref torch\): got 3; allowed: at most 2"):
            admit(plan_job(parse_spec({"framework": "jax", "image": "i", "num_nodes": 3})))


@pytest.mark.parametrize(
    ("applies_to", "refused"),
    [
        ({"dags": ["nightly_*"]}, True),
        ({"dags": ["weekly_*"]}, False),
        ({"tags": ["gpu"]}, True),
        ({"tags": ["cpu"]}, False),
        ({"frameworks": ["jax"]}, True),
        ({"frameworks": ["mpi"]}, False),
        # The local backend has no namespace.
        ({"namespaces": ["*?"]}, False),
    ],
)
def test_policies_are_chosen_for_the_task(policies, applies_to, refused):
    policies("one", {"field": "num_nodes", "max": 2}, **applies_to)
    task = operator(dag_id="nightly_bert", tags=["gpu"], num_nodes=3)

    if refused:
        with pytest.raises(PolicyViolation):
            task._job()
    else:
        task._job()


@pytest.mark.parametrize(
    ("fields", "of_connection", "refused"),
    [
        ({"namespace": "team"}, None, True),
        ({"namespace": "other"}, "team", False),
        ({}, "team", True),
        ({}, None, False),
        ({"backend": "auto"}, "team", True),
    ],
)
def test_the_namespace_may_be_the_connections(policies, connection, fields, of_connection, refused):
    connection(of_connection)
    policies("one", {"field": "num_nodes", "max": 2}, namespaces=["team"])
    task = operator(**{"backend": "native", "image": "i", "num_nodes": 3, **fields})

    if refused:
        with pytest.raises(PolicyViolation):
            task._job()
    else:
        task._job()


def test_a_policy_that_names_the_framework_chooses_those_for_it(policies):
    policies("a", {"field": "framework", "default": "jax"})
    policies("b", {"field": "num_nodes", "max": 2}, frameworks=["jax"])

    with pytest.raises(PolicyViolation):
        operator(framework=None, num_nodes=3)._job()


def test_a_wrong_policy_fails_the_task(context, policies):
    file = policies("one", {"field": "num_nodez", "max": 2})

    with pytest.raises(AirflowFailException) as caught:
        operator().execute(context)

    assert f"{file}: rules[0].field" in str(caught.value)
    assert "Did you mean 'num_nodes'?" in str(caught.value)
