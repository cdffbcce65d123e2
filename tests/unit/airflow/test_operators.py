"""The operators, sensor and trigger, as far as they can be seen without a scheduler."""

from __future__ import annotations

import importlib
import json
import logging
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.errors import ApiError, JobLost
from airflow_trainer_provider.job.conclusion import Conclusion
from airflow_trainer_provider.job.diagnosis import Diagnosis
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
    """Takes the job and says so, without a backend behind it.

    :param conclusion: of the job.
    :param trouble: what telling the job of it meets.
    """

    log = logging.getLogger("hook")

    def __init__(self, conclusion=None, trouble=None, conclusions=()):
        self.conclusions, self.trouble = list(conclusions) or [conclusion], trouble
        self.cancelled, self.told, self.waits, self.job, self.submits = [], [], [], None, 0

    async def choose(self, job):
        self.job = job
        return SimpleNamespace(backend=self, why="Backend auto: took this one.")

    def check(self, job):
        pass

    def render(self, job, identity):
        return "the job"

    async def submit(self, job, identity):
        self.submits += 1
        return SimpleNamespace(handle=HANDLE, adopted=None)

    async def wait(self, handle, **options):
        self.waits.append(options)
        return self.conclusions.pop(0)

    async def collected(self, handle):
        self.told.append(handle)
        if self.trouble:
            raise self.trouble

    def cancel_now(self, handle, reason):
        self.cancelled.append(handle)


def test_without_waiting_the_handle_is_the_result(context, capsys):
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()

    assert operator.execute(context) == HANDLE.to_xcom() == context["ti"].pushed["job"]
    operator.on_kill()

    assert hook.cancelled == [HANDLE]
    assert "took this one" in capsys.readouterr().out


SUCCEEDED = Conclusion(summary={"phase": "succeeded", "metrics": {"loss": 0.5}})
FAILED = Conclusion(failure=Diagnosis(job="j", phase="failed", reason="Error", message="It broke.", traceback=("a",)))
HOPELESS = Conclusion(failure=replace(FAILED.failure, retry_can_help="no"))


def _run(operator, how, context, conclusion):
    """What a task does that waits here, or whose trigger has waited."""
    if how == "waiting":
        operator.deferrable = False
        return operator.execute(context)
    event = json.loads(json.dumps({"end": "concluded", **conclusion.to_json()}))
    return operator.execute_complete(context, event, dict(HANDLE.to_xcom()), deadline=None, starts=1)


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_the_outcome_goes_into_xcom_and_then_the_job_is_told(context, how):
    operator = _operator()
    operator.hook = hook = _Hook(SUCCEEDED)
    context["ti"].task = operator

    assert _run(operator, how, context, SUCCEEDED) == SUCCEEDED.summary

    assert context["ti"].pushed["return_value"] == SUCCEEDED.summary
    assert hook.told == [HANDLE]


@pytest.mark.parametrize("how", ["waiting", "deferred"])
@pytest.mark.parametrize(("conclusion", "error"), [(FAILED, AirflowException), (HOPELESS, AirflowFailException)])
def test_a_failure_goes_into_xcom_and_is_raised(context, how, conclusion, error):
    operator = _operator()
    operator.hook = hook = _Hook(conclusion)

    with pytest.raises(AirflowException, match="It broke") as caught:
        _run(operator, how, context, conclusion)

    assert type(caught.value) is error
    assert context["ti"].pushed["failure"] == conclusion.failure.to_xcom()
    assert hook.told == [HANDLE]


@pytest.mark.parametrize("trouble", [JobLost("it is gone"), ApiError("no answer")])
def test_an_outcome_stays_what_it_is_where_the_job_cannot_be_told(context, trouble, caplog):
    operator = _operator()
    operator.hook = _Hook(SUCCEEDED, trouble)
    context["ti"].task = operator

    assert _run(operator, "deferred", context, SUCCEEDED) == SUCCEEDED.summary

    assert str(trouble) in caplog.text


@pytest.mark.parametrize(("retryable", "error"), [(True, AirflowException), (False, AirflowFailException)])
def test_an_error_in_the_triggerer_is_raised_on_the_worker(context, retryable, error):
    event = {"end": "error", "message": "The job is gone.", "retryable": retryable}

    with pytest.raises(AirflowException, match="The job is gone") as caught:
        _operator().execute_complete(context, event, dict(HANDLE.to_xcom()), deadline=None, starts=1)

    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("policy", "deadline"),
    [(None, 151), ({"backoff_limit": 1}, 151), ({"active_deadline_seconds": 7}, 7)],
)
def test_a_job_whose_task_has_a_time_ends_by_itself_a_little_later(context, policy, deadline):
    operator = _operator(wait_for_completion=False, run_policy=policy, execution_timeout=timedelta(seconds=90.5))
    operator.hook = hook = _Hook()

    operator.execute(context)

    assert hook.job.spec.run_policy.active_deadline_seconds == deadline
    assert hook.job.spec.run_policy.backoff_limit == (policy or {}).get("backoff_limit", 0)


def test_a_wrong_run_policy_is_told_though_the_task_has_a_time(context):
    with pytest.raises(AirflowFailException, match="run_policy"):
        _operator(run_policy="later", execution_timeout=timedelta(seconds=90)).execute(context)


def test_the_job_is_given_its_time_to_start(context):
    operator = _operator(run_policy={"startup_timeout_seconds": 40}, deferrable=False)
    operator.hook = hook = _Hook(SUCCEEDED)
    context["ti"].task = operator

    operator.execute(context)

    assert hook.waits[0]["startup_timeout"] == 40


def test_trouble_with_the_cluster_is_shown_where_the_job_would_be(context):
    operator = _operator(backend="auto")
    operator.hook = hook = _Hook()

    async def render(job, identity):
        raise RuntimeError("the cluster is on fire")

    hook.render = render
    operator.render_template_fields(context)

    assert json.loads(operator.rendered_job) == {"error": "the cluster is on fire"}


LOST = Conclusion(failure=replace(FAILED.failure, reason="NodeLost", infrastructure=True))


@pytest.mark.parametrize(
    ("conclusions", "retries", "submits", "ends_well"),
    [
        ([LOST, LOST, SUCCEEDED], 2, 3, True),
        ([LOST, LOST], 1, 2, False),
        ([LOST], 0, 1, False),
        ([FAILED], 2, 1, False),
        ([LOST, FAILED], 2, 2, False),
    ],
)
@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_what_the_infrastructure_fails_starts_again_as_often_as_allowed(
    context, how, conclusions, retries, submits, ends_well
):
    operator = _operator(deferrable=how == "deferred", run_policy={"infrastructure_retries": retries})
    operator.hook = hook = _Hook(conclusions=conclusions)
    context["ti"].task = operator

    def go():
        step, kwargs = operator.execute, {}
        for conclusion in conclusions:
            try:
                return step(context, **kwargs)
            except TaskDeferred as deferral:
                event = {"end": "concluded", **conclusion.to_json()}
                step, kwargs = operator.execute_complete, {"event": event, **deferral.kwargs}
        return step(context, **kwargs)

    if ends_well:
        assert go() == SUCCEEDED.summary
    else:
        with pytest.raises(AirflowException, match="It broke"):
            go()
    assert hook.submits == submits == len(hook.told)


def test_an_outcome_counts_though_the_tasks_templates_say_something_else_by_now(context):
    operator = _operator(framework="pytroch")
    operator.hook = _Hook()
    context["ti"].task = operator

    assert _run(operator, "deferred", context, SUCCEEDED) == SUCCEEDED.summary


def test_a_job_that_starts_again_has_no_more_time_than_the_first(context):
    operator = _operator(deferrable=True, run_policy={"infrastructure_retries": 1})
    operator.hook = _Hook()
    event = {"end": "concluded", **LOST.to_json()}

    with pytest.raises(TaskDeferred) as deferral:
        operator.execute_complete(context, event, dict(HANDLE.to_xcom()), "2026-01-01T00:00:00+00:00", starts=1)

    assert deferral.value.trigger.deadline == "2026-01-01T00:00:00+00:00"
    assert deferral.value.kwargs["starts"] == 2


def test_a_task_that_is_killed_while_it_submits_ends_what_it_has_submitted(context):
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()

    async def submit(job, identity):
        operator.on_kill()
        return SimpleNamespace(handle=HANDLE, adopted=None)

    hook.submit = submit
    operator.execute(context)

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
