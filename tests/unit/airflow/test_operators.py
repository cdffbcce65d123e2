"""The operators, sensor and trigger, as far as they can be seen without a scheduler."""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.operators.train_job import SPEC_FIELDS
from airflow_trainer_provider.spec import TrainJobSpec
from airflow_trainer_provider.triggers.train_job import TrainJobTrigger

HANDLE = JobHandle(name="j", uid="u", backend="local", framework="jax", leader="worker-0", owner=1, location="/l")


class _TaskInstance(SimpleNamespace):
    def xcom_push(self, key, value):
        self.pushed[key] = value


@pytest.fixture
def context():
    ti = _TaskInstance(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, pushed={})
    return {"ti": ti, "params": {"epochs": 4, "nodes": 2, "who": "all"}}


def _operator(**fields):
    with DAG("d", schedule=None):
        return provider.TrainJobOperator(task_id="train", **({"framework": "jax", "backend": "local"} | fields))


def test_the_operator_takes_and_templates_every_field_of_the_spec():
    assert set(SPEC_FIELDS) == set(TrainJobSpec.model_fields)
    operator = _operator()
    assert set(SPEC_FIELDS) <= set(operator.template_fields)
    assert all(hasattr(operator, name) for name in operator.template_fields)


TEMPLATED = {
    "num_nodes": "{{ params.nodes }}",
    "command": ["python", "train.py", "--epochs={{ params.epochs }}"],
    "env": {"WHO": "{{ params.who }}"},
    "replicas": {"worker": {"overrides": [{"index": 1, "env": {"WHO": "second of {{ params.nodes }}"}}]}},
}


def _check_rendered(operator):
    document = yaml.safe_load(operator.rendered_job)
    first, second = document["replicas"]
    assert first["command"] == "python train.py --epochs=4"
    assert first["env"]["WHO"] == "all"
    assert second["env"]["WHO"] == "second of 2"
    assert operator.replicas["worker"]["overrides"][0]["env"] == {"WHO": "second of 2"}


def test_nested_templates_are_rendered_and_the_whole_job_with_them(context):
    operator = _operator(**TEMPLATED)

    operator.render_template_fields(context)

    _check_rendered(operator)


def test_a_mapped_tasks_job_is_rendered_as_well(context):
    operator = _operator(**TEMPLATED)
    # What a MappedOperator does with the task that it has unmapped.
    operator._do_render_template_fields(
        parent=operator,
        template_fields=operator.template_fields,
        context=context,
        jinja_env=operator.get_template_env(),
        seen_oids=set(),
    )

    _check_rendered(operator)


def test_a_wrong_specs_error_is_shown_where_the_job_would_be(context):
    operator = _operator(framework="{{ 'pytroch' }}")

    operator.render_template_fields(context)

    assert "Did you mean 'pytorch'?" in json.loads(operator.rendered_job)["error"]


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("PyTorchJobOperator", "pytorch"),
        ("TFJobOperator", "tensorflow"),
        ("MPIJobOperator", "mpi"),
        ("XGBoostJobOperator", "xgboost"),
        ("PaddleJobOperator", "paddle"),
        ("JAXJobOperator", "jax"),
    ],
)
def test_the_presets(name, framework):
    with DAG("d", schedule=None):
        operator = getattr(provider, name)(task_id="t", num_nodes=2)

    assert isinstance(operator, provider.TrainJobOperator)
    assert (operator.framework, operator.num_nodes) == (framework, 2)


def test_mpis_own_word_for_processes_on_a_node():
    with DAG("d", schedule=None):
        operator = provider.MPIJobOperator(task_id="t", slots_per_worker="{{ params.slots }}")

    assert operator.num_proc_per_node == "{{ params.slots }}"


def test_what_a_retry_cannot_cure_fails_for_good_and_starts_nothing(context, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path / "jobs"))

    with pytest.raises(AirflowFailException, match="Did you mean 'pytorch'"):
        _operator(framework="pytroch").execute(context)

    assert not (tmp_path / "jobs").exists()
    assert context["ti"].pushed == {}


def test_render_only_returns_the_job_and_starts_nothing(context, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path / "jobs"))

    text = _operator(command=["sh", "-c", "true"], render_only=True).execute(context)

    assert yaml.safe_load(text)["replicas"][0]["command"] == "sh -c true"
    assert not (tmp_path / "jobs").exists()


class _Hook:
    """Takes the job and says so, without a backend behind it."""

    def __init__(self):
        self.backend, self.cancelled = self, []

    def check(self, job):
        pass

    def render(self, job, name):
        return name

    async def submit(self, job, identity):
        return SimpleNamespace(handle=HANDLE, adopted=None)

    def cancel_now(self, handle, reason):
        self.cancelled.append(handle)


def test_without_waiting_the_handle_is_the_result(context):
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()

    assert operator.execute(context) == HANDLE.to_xcom() == context["ti"].pushed["job"]
    operator.on_kill()
    assert hook.cancelled == [HANDLE]


def test_nothing_is_ended_that_was_not_started():
    operator = _operator()
    operator.hook = hook = _Hook()

    operator.on_kill()

    assert hook.cancelled == []


@pytest.mark.parametrize("deadline", [None, "2026-01-01T00:00:00+00:00"])
def test_a_trigger_is_what_its_row_says(deadline):
    trigger = TrainJobTrigger(dict(HANDLE.to_xcom()), "try-1", deadline, cancel_on_kill=True)

    path, kwargs = json.loads(json.dumps(trigger.serialize()))
    module, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(module), name)(**kwargs)

    assert again.serialize() == trigger.serialize()
    assert JobHandle.parse(again.job) == HANDLE


def _sensor(job):
    with DAG("d", schedule=None):
        return provider.TrainJobSensor(task_id="wait", job=job)


@pytest.mark.parametrize("job", [HANDLE.to_xcom(), json.dumps(HANDLE.to_xcom())])
def test_a_sensor_reads_the_handle(job):
    assert _sensor(job).handle == HANDLE


def test_a_sensor_without_a_handle_fails_for_good(context):
    with pytest.raises(AirflowFailException, match="the handle that an operator pushed"):
        _sensor("{}").poke(context)
