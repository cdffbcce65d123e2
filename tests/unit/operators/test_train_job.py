"""The operators, sensor and trigger, as far as they can be seen without a scheduler."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.errors import ApiError, BackendUnavailable, JobLost, SubmitError
from airflow_trainer_provider.hooks import task as task_state
from airflow_trainer_provider.hooks.backends import JobPlace
from airflow_trainer_provider.job.backend import MainObject
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import spec_digest
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.operators import train_job
from airflow_trainer_provider.operators.failures.exceptions import OutOfMemory, Rejected
from airflow_trainer_provider.operators.outcome import settle
from airflow_trainer_provider.operators.train_job import SPEC_FIELDS
from airflow_trainer_provider.spec import TrainJobSpec
from airflow_trainer_provider.triggers.train_job import TrainJobTrigger
from tests.airflow_version import AIRFLOW_V_3_3

HANDLE = JobHandle(name="j", uid="u", backend="local", framework="jax", leader="worker-0", owner=1, location="/l")


class _TaskInstance(SimpleNamespace):
    def xcom_push(self, key, value):
        self.pushed[key] = value

    def get_template_context(self):
        return {"ti": self}


@pytest.fixture
def context():
    ti = _TaskInstance(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, max_tries=0, pushed={})
    ti.task = SimpleNamespace(outlets=())
    return {"ti": ti, "params": {"epochs": 4, "nodes": 2, "who": "all"}}


def _operator(**fields):
    with DAG("d", schedule=None):
        return provider.TrainJobOperator(task_id="train", **({"framework": "jax", "backend": "local"} | fields))


def test_the_operator_takes_and_templates_every_field_of_the_spec():
    assert {*SPEC_FIELDS, "function"} == set(TrainJobSpec.model_fields)
    operator = _operator()
    assert set(SPEC_FIELDS) <= set(operator.template_fields)
    assert all(hasattr(operator, name) for name in operator.template_fields)


def test_a_subclass_with_template_fields_of_its_own_has_those_by_which_its_job_is_found(context):
    class Nightly(provider.TrainJobOperator):
        template_fields = ("team", "namespace")

        def __init__(self, *, team, **kwargs):
            super().__init__(**kwargs)
            self.team = team

    with DAG("d", schedule=None):
        operator = Nightly(task_id="train", team="{{ params.who }}", framework="jax", backend="local", command=["a"])
    operator.render_template_fields(context)

    assert operator.template_fields == ("team", "namespace", "backend", "kubernetes_conn_id", "rendered_job")
    assert (operator.team, yaml.safe_load(operator.rendered_job)["replicas"][0]["command"]) == ("all", "a")
    assert provider.TrainJobOperator.template_fields.count("rendered_job") == 1


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


def test_the_log_warns_where_nothing_places_pods_with_accelerators_together(context, monkeypatch):
    backend = SimpleNamespace(render=lambda job, identity: "the job")
    monkeypatch.setattr(provider.TrainJobOperator, "_choose", lambda self, job: backend)
    warnings: list[str] = []
    log = SimpleNamespace(info=lambda *words: None, warning=lambda text, *words: warnings.append(text % words))
    monkeypatch.setattr(provider.TrainJobOperator, "log", log)
    fields = {"backend": "native", "image": "a", "num_nodes": 2, "resources_per_node": {"gpu": 1}, "render_only": True}

    _operator(**fields, scheduling={"gang": "coscheduling"}).execute(context)
    assert not [each for each in warnings if "nothing places them together" in each]
    _operator(**fields).execute(context)

    assert [each for each in warnings if each.startswith("2 pods of the job ask for accelerators")]


class _Hook:
    """Takes the job and says so, without a backend behind it.

    :param outcome: of the job.
    :param fault: the error of the acknowledgement.
    """

    log = logging.getLogger("hook")
    handle = HANDLE
    can_suspend = False

    def __init__(self, outcome=None, fault=None, outcomes=()):
        self.outcomes, self.fault = list(outcomes) or [outcome], fault
        self.cancelled, self.acknowledged, self.waits, self.job, self.submits = [], [], [], None, 0
        self.starts, self.released, self.submitted = [], [], []
        self.where, self.events = JobPlace("local", None, None), []
        self.adopted: str | None = None
        self.ended: bool | Exception = False

    async def choose(self, job):
        self.job = job
        return SimpleNamespace(backend=self, why="Backend auto: took this one.")

    def place(self, backend):
        return self.where

    def check(self, job):
        pass

    def render(self, job, identity):
        return "the job"

    def main_object(self, handle):
        return MainObject("kube", "ml", "Job", "jobs.batch", handle.name) if handle.backend == "native" else None

    async def submit(self, job, identity, *, start=1, admit=None):
        self.events.append("submitted")
        self.submits += 1
        self.submitted.append(job)
        self.starts.append(start)
        return SimpleNamespace(handle=self.handle, adopted=self.adopted)

    async def has_ended(self, handle):
        if isinstance(self.ended, Exception):
            raise self.ended
        return self.ended

    async def wait(self, handle, **options):
        self.waits.append(options)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def acknowledge(self, handle):
        self.acknowledged.append(handle)
        if self.fault:
            raise self.fault

    async def release(self, handle):
        self.released.append(handle)

    async def cancel_task(self, identity, reason, handle=None):
        self.cancelled.append((identity.task_id, handle, reason))

    async def end_earlier(self, identity):
        if self.fault:
            raise self.fault
        self.events.append(f"ended before try {identity.try_number}")


@pytest.fixture
def state(monkeypatch):
    """What Airflow answers to the question for the task's state; an exception: it does not answer."""
    case = SimpleNamespace(answer="running")

    async def state_of(identity):
        if isinstance(case.answer, Exception):
            raise case.answer
        return case.answer

    monkeypatch.setattr(task_state, "state_of", state_of)
    return case


def test_a_request_that_was_given_up_ends_before_the_task_asks_for_anything(context):
    order = []

    class Reporting(_Hook):
        async def wait(self, handle, **options):
            def request():
                time.sleep(0.3)
                order.append("reported")

            order.append(asyncio.ensure_future(task_state.ask(request)))
            await asyncio.sleep(0.05)
            return SUCCEEDED

    operator = _operator(deferrable=False)
    operator.hook = Reporting()
    operator.execute(context)

    assert order[1:] == ["reported"]


def test_the_addresses_of_tools_are_logged_and_pushed_before_the_wait(context, capsys):
    handle = HANDLE.model_copy(update={"tools": {"tb": "http://tb.example/", "lab": "http://<node>:31000/"}})
    operator = _operator(wait_for_completion=False, tools={"tb": {"port": 6006}, "lab": {"port": 8888}})
    operator.hook = hook = _Hook()
    hook.handle = handle

    assert operator.execute(context)["tools"] == handle.tools

    pushed = context["ti"].pushed
    assert pushed.pop("request")["tools"] == handle.tools
    assert pushed == {"job": handle.to_xcom(), "_link_ToolLink_tb": "http://tb.example/"}
    assert "Tool tb: http://tb.example/" in capsys.readouterr().out


def test_without_waiting_the_handle_is_the_result_and_the_job_is_released(context, capsys):
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()

    assert operator.execute(context) == HANDLE.to_xcom() == context["ti"].pushed["job"]

    assert hook.released == [HANDLE]
    assert "took this one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("failed", "the task is failed"),
        ("success", "the task is success"),
        ("skipped", "the task was skipped, by hand or as the time of its run was over (dagrun_timeout)"),
        ("removed", "the task is removed"),
        ("restarting", "the task is restarting"),
    ],
)
def test_a_task_that_is_over_ends_its_job_when_it_is_asked_to_stop(context, state, answer, reason):
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()
    operator.execute(context)
    state.answer = answer

    operator.on_kill()

    assert hook.cancelled == [("train", HANDLE, reason)]


@pytest.mark.parametrize(
    "answer", ["running", "queued", "scheduled", "deferred", "up_for_retry", None, ConnectionError("away")]
)
def test_a_task_that_has_lost_contact_leaves_its_job_for_the_next_try(context, state, answer):
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()
    operator.execute(context)
    state.answer = answer

    operator.on_kill()

    assert hook.cancelled == []


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_task_whose_time_is_over_ends_its_job_without_asking(context, state, how):
    operator = _operator(deferrable=False)
    operator.hook = hook = _Hook(AirflowTaskTimeout("too long"))
    state.answer = ConnectionError("away")

    def go():
        if how == "waiting":
            operator.execute(context)
        operator.execute_complete(context, {"end": "timed out"}, dict(HANDLE.to_xcom()), None, 1)

    with pytest.raises(AirflowTaskTimeout):
        go()
    operator.on_kill()  # as Airflow calls it then

    assert hook.cancelled == [("train", HANDLE, "the task's execution_timeout had passed")]


SUCCEEDED = JobOutcome(summary={"phase": "succeeded", "metrics": {"loss": 0.5}})
FAILED = JobOutcome(failure=Diagnosis(job="j", phase="failed", reason="Error", message="It broke.", traceback=("a",)))
HOPELESS = JobOutcome(failure=replace(FAILED.failure, retry_can_help="no"))


def _run(operator, how, context, outcome):
    """What a task does that waits here, or whose trigger has waited."""
    if how == "waiting":
        operator.deferrable = False
        return operator.execute(context)
    event = json.loads(json.dumps({"end": "concluded", **outcome.to_json()}))
    return operator.execute_complete(context, event, dict(HANDLE.to_xcom()), deadline=None, starts=1)


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_result_is_acknowledged_once_airflow_has_recorded_the_success(context, how, state):
    operator = _operator()
    operator.hook = hook = _Hook(SUCCEEDED)
    context["ti"].task = operator

    assert _run(operator, how, context, SUCCEEDED) == SUCCEEDED.summary
    assert hook.acknowledged == []

    state.answer = "success"
    settle(context["ti"])
    assert hook.acknowledged == [HANDLE]


@pytest.mark.parametrize("answer", ["running", "up_for_retry", ConnectionError("refused")])
def test_a_job_is_kept_for_the_next_try_where_the_success_is_not_recorded(context, state, answer):
    operator = _operator()
    operator.hook = hook = _Hook(SUCCEEDED)
    context["ti"].task = operator
    _run(operator, "deferred", context, SUCCEEDED)

    state.answer = answer
    settle(context["ti"])

    assert hook.acknowledged == []


@pytest.mark.parametrize("how", ["waiting", "deferred"])
@pytest.mark.parametrize(("outcome", "error"), [(FAILED, AirflowException), (HOPELESS, AirflowFailException)])
def test_a_failure_is_raised_and_is_in_xcom_before_it_is_acknowledged(context, how, outcome, error):
    operator = _operator()
    operator.hook = hook = _Hook(outcome)
    pushed = []

    async def acknowledge(handle):
        pushed.append((handle, dict(context["ti"].pushed)))

    hook.acknowledge = acknowledge

    with pytest.raises(AirflowException, match="It broke") as caught:
        _run(operator, how, context, outcome)

    assert isinstance(caught.value, AirflowFailException) is (error is AirflowFailException)
    ((handle, before),) = pushed
    assert handle == HANDLE
    assert before["failure"] == outcome.failure.to_xcom()


@pytest.mark.parametrize("fault", [JobLost("it is gone"), ApiError("no answer")])
def test_an_outcome_stays_what_it_is_where_it_cannot_be_acknowledged(context, state, fault, caplog):
    operator = _operator()
    operator.hook = _Hook(SUCCEEDED, fault)
    context["ti"].task = operator

    assert _run(operator, "deferred", context, SUCCEEDED) == SUCCEEDED.summary
    state.answer = "success"
    settle(context["ti"])

    assert str(fault) in caplog.text


@pytest.mark.parametrize(("retryable", "error"), [(True, AirflowException), (False, AirflowFailException)])
def test_an_error_in_the_triggerer_is_raised_on_the_worker(context, retryable, error):
    event = {"end": "error", "message": "The job is gone.", "retryable": retryable}

    with pytest.raises(AirflowException, match="The job is gone") as caught:
        _operator().execute_complete(context, event, dict(HANDLE.to_xcom()), deadline=None, starts=1)

    assert isinstance(caught.value, AirflowFailException) is (error is AirflowFailException)


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


def test_a_wrong_run_policy_is_reported_though_the_task_has_a_time(context):
    with pytest.raises(AirflowFailException, match="run_policy"):
        _operator(run_policy="later", execution_timeout=timedelta(seconds=90)).execute(context)


def test_the_job_is_given_its_time_to_start(context):
    operator = _operator(run_policy={"startup_timeout_seconds": 40}, deferrable=False)
    operator.hook = hook = _Hook(SUCCEEDED)
    context["ti"].task = operator

    operator.execute(context)

    assert hook.waits[0]["startup_timeout"] == 40


def test_an_error_with_the_cluster_is_shown_where_the_job_would_be(context):
    operator = _operator(backend="auto")
    operator.hook = hook = _Hook()

    async def render(job, identity):
        raise RuntimeError("the cluster is on fire")

    hook.render = render
    operator.render_template_fields(context)

    assert json.loads(operator.rendered_job) == {"error": "the cluster is on fire"}


LOST = JobOutcome(failure=replace(FAILED.failure, reason="NodeLost", infrastructure=True))
SHORT = JobOutcome(
    failure=replace(FAILED.failure, reason="OOMKilled", replica="worker-1", retry_can_help="no", kind="memory")
)


def _go(operator, context, outcomes, *, with_scheduler=True):
    """Run a task to its end, deferred or not; return what it returns. Without a scheduler, a deferred task goes on with
    the event only.
    """
    step, kwargs = operator.execute, {}
    for outcome in outcomes:
        try:
            return step(context, **kwargs)
        except TaskDeferred as deferral:
            _, row = deferral.trigger.serialize()
            event = {"end": "concluded", **outcome.to_json(), "kwargs": TrainJobTrigger(**row)._kwargs()}
            given = {"event": event, **(deferral.kwargs if with_scheduler else {})}
            step, kwargs = operator.execute_complete, json.loads(json.dumps(given))
    return step(context, **kwargs)


@pytest.mark.parametrize(
    ("outcomes", "retries", "submits", "ends_well"),
    [
        ([LOST, LOST, SUCCEEDED], 2, 3, True),
        ([LOST, LOST], 1, 2, False),
        ([LOST], 0, 1, False),
        ([FAILED], 2, 1, False),
        ([LOST, FAILED], 2, 2, False),
    ],
)
@pytest.mark.parametrize("how", ["waiting", "deferred", "without a scheduler"])
def test_what_the_infrastructure_fails_starts_again_as_often_as_allowed(
    context, how, outcomes, retries, submits, ends_well
):
    operator = _operator(deferrable=how != "waiting", run_policy={"infrastructure_retries": retries})
    operator.hook = hook = _Hook(outcomes=outcomes)
    context["ti"].task = operator
    go = partial(_go, operator, context, outcomes, with_scheduler=how != "without a scheduler")

    if ends_well:
        assert go() == SUCCEEDED.summary
    else:
        with pytest.raises(AirflowException, match="It broke"):
            go()
    assert hook.submits == submits == len(hook.acknowledged) + ends_well
    # Each job has a name of its own: the pods of an earlier one may still be terminating.
    assert hook.starts == list(range(1, submits + 1))


def test_a_job_of_an_earlier_try_that_has_ended_is_not_deferred_for(context):
    operator = _operator(deferrable=True)
    operator.hook = hook = _Hook(outcomes=[SUCCEEDED])
    hook.adopted, hook.ended = "it succeeded in try 1", True

    assert operator.execute(context) == SUCCEEDED.summary


@pytest.mark.parametrize("ended", [False, ApiError("no answer")])
def test_a_job_of_an_earlier_try_that_may_run_still_is_deferred_for(context, ended):
    operator = _operator(deferrable=True)
    operator.hook = hook = _Hook()
    hook.adopted, hook.ended = "try 1 started it", ended

    with pytest.raises(TaskDeferred):
        operator.execute(context)


def test_what_starts_again_after_a_job_that_has_ended_is_deferred_for(context, monkeypatch):
    policy = {"infrastructure_retries": 1}
    operator = _operator(deferrable=True, run_policy=policy, execution_timeout=timedelta(hours=1))
    operator.hook = hook = _Hook(outcomes=[LOST])
    hook.adopted, hook.ended = "try 1 started it", True
    context["ti"].task = operator
    deadlines = iter(["2026-01-01T00:00:00+00:00"])
    monkeypatch.setattr(provider.TrainJobOperator, "_deadline", lambda self: next(deadlines))

    with pytest.raises(TaskDeferred) as deferral:
        operator.execute(context)

    assert deferral.value.kwargs["starts"] == hook.submits == 2
    # It has no more time than the first.
    assert deferral.value.kwargs["deadline"] == "2026-01-01T00:00:00+00:00"


def _limits(hook):
    return [{str(each.resources.memory.limits) for each in job.replicas} for job in hook.submitted]


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_job_that_runs_out_of_memory_gets_more_within_the_same_try(context, how, monkeypatch):
    warnings: list[str] = []
    log = SimpleNamespace(info=lambda *words: None, warning=lambda text, *words: warnings.append(text % words))
    monkeypatch.setattr(provider.TrainJobOperator, "log", log)
    policy = {"on_oom": {"factor": 1.5, "max": "200Mi"}, "infrastructure_retries": 1}
    fields = {"num_nodes": 2, "resources_per_node": {"memory": "100Mi"}, "run_policy": policy}
    operator = _operator(deferrable=how == "deferred", backend="native", **fields)
    outcomes = [SHORT, LOST, SHORT, SUCCEEDED]
    operator.hook = hook = _Hook(outcomes=outcomes)
    context["ti"].task = operator

    summary = _go(operator, context, outcomes)

    assert _limits(hook) == [{"100Mi"}, {"150Mi"}, {"150Mi"}, {"200Mi"}]
    assert hook.starts == [1, 2, 3, 4]
    # Another try takes each of them for its own.
    assert {spec_digest(job.asked or job.spec) for job in hook.submitted} == {spec_digest(hook.submitted[0].spec)}
    steps = [(each["before"], each["after"]) for each in summary["more_memory"]]
    assert steps == [("100Mi", "150Mi"), ("150Mi", "200Mi")]
    assert context["ti"].pushed["request"]["requested"]["memory_bytes"] == 200 << 20
    said = "It starts again with resources_per_node.memory 150Mi instead of 100Mi, as run_policy.on_oom says."
    assert said in warnings


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_a_job_that_has_the_most_memory_fails_for_good(context, how):
    policy = {"on_oom": {"factor": 4, "max": "200Mi"}}
    fields = {"num_nodes": 2, "resources_per_node": {"memory": "100Mi"}, "run_policy": policy}
    operator = _operator(deferrable=how == "deferred", backend="native", **fields)
    operator.hook = hook = _Hook(outcomes=[SHORT, SHORT])
    context["ti"].task = operator

    with pytest.raises(OutOfMemory, match="It broke") as caught:
        _go(operator, context, [SHORT, SHORT])

    assert isinstance(caught.value, AirflowFailException)
    assert _limits(hook) == [{"100Mi"}, {"200Mi"}]
    assert context["ti"].pushed["failure"]["retry_can_help"] == "no"


@pytest.mark.parametrize("how", ["waiting", "deferred"])
@pytest.mark.parametrize(
    ("memory", "again"),
    [
        ("{{ ti.try_number * 8 }}Gi", True),
        ("{{ [ti.try_number * 8, 8] | min }}Gi", False),
        ("{{ ['8Gi'][ti.try_number - 1] }}", False),
        ("8Gi", False),
    ],
)
def test_a_job_out_of_memory_is_tried_again_where_the_next_try_asks_for_more(context, how, memory, again, monkeypatch):
    fields = {"resources_per_node": {"memory": memory}, "args": ["--try={{ ti.try_number }}"]}
    operator = _operator(deferrable=how == "deferred", backend="native", **fields)
    operator.hook = hook = _Hook(outcomes=[SHORT])
    context["ti"].task, context["ti"].max_tries = operator, 1

    async def text(job, identity):
        return "the job"

    with monkeypatch.context() as patched:
        patched.setattr(hook, "render", text)
        operator.render_template_fields(context)

    with pytest.raises(OutOfMemory) as caught:
        _go(operator, context, [SHORT])

    assert isinstance(caught.value, AirflowFailException) is not again
    failure = context["ti"].pushed["failure"]
    assert failure["retry_can_help"] == caught.value.retry_can_help == ("unknown" if again else "no")
    if again:
        assert failure["way_out"] == "The next try asks for other limits, as its templates say."
    else:
        # Of a template that the next try cannot render nothing is said.
        assert failure["way_out"] == (None if "['8Gi']" in memory else "The next try would ask for the same.")
    assert operator.resources_per_node == {"memory": "8Gi"}


def test_the_last_try_says_nothing_of_a_next_one(context):
    operator = _operator(deferrable=False, backend="native", resources_per_node={"memory": "8Gi"})
    operator.hook = _Hook(outcomes=[SHORT])
    context["ti"].task = operator

    with pytest.raises(OutOfMemory):
        operator.execute(context)

    assert "next try" not in str(context["ti"].pushed["failure"]["way_out"])


@pytest.mark.parametrize("how", ["waiting", "deferred"])
def test_where_the_job_that_follows_is_refused_the_first_ones_failure_is_kept(context, how, monkeypatch):
    policy = {"on_oom": {"factor": 2, "max": "1Gi"}}
    fields = {"resources_per_node": {"memory": "100Mi"}, "run_policy": policy}
    operator = _operator(deferrable=how == "deferred", backend="native", **fields)
    operator.hook = hook = _Hook(outcomes=[SHORT])
    context["ti"].task = operator
    submit = hook.submit

    async def refuse(*args, **kwargs):
        if hook.submits:
            raise SubmitError("the webhook refuses it")
        return await submit(*args, **kwargs)

    monkeypatch.setattr(hook, "submit", refuse)
    with pytest.raises(AirflowException, match="the webhook refuses it"):
        _go(operator, context, [SHORT])

    assert context["ti"].pushed["failure"]["reason"] == "OOMKilled"


def test_a_policy_bounds_what_a_job_gets_that_ran_out_of_memory(context, tmp_path, monkeypatch, caplog):
    rule = {"field": "resources_per_node.memory", "max": "120Mi", "reason": "small nodes"}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"rules": [rule]}))
    monkeypatch.setenv("AIRFLOW__TRAINER__POLICIES_FOLDER", str(tmp_path))
    fields = {"resources_per_node": {"memory": "100Mi"}, "run_policy": {"on_oom": {"factor": 2, "max": "1Gi"}}}
    operator = _operator(deferrable=False, backend="native", **fields)
    operator.hook = hook = _Hook(outcomes=[SHORT])
    context["ti"].task = operator

    with pytest.raises(OutOfMemory):
        operator.execute(context)

    assert _limits(hook) == [{"100Mi"}]
    assert "run_policy.on_oom cannot raise resources_per_node.memory to 200Mi" in caplog.text


def test_an_outcome_counts_though_the_tasks_templates_say_something_else_by_now(context):
    operator = _operator(framework="pytroch")
    operator.hook = _Hook()
    context["ti"].task = operator

    assert _run(operator, "deferred", context, SUCCEEDED) == SUCCEEDED.summary
    with pytest.raises(OutOfMemory, match="It broke"):
        _run(operator, "deferred", context, SHORT)
    assert operator.hook.submits == 0


def test_a_try_that_gets_the_event_of_an_earlier_one_has_a_job_of_its_own(context):
    operator = _operator(deferrable=True)
    operator.hook = hook = _Hook()
    context["ti"].try_number = 2
    context["ti"].pushed["failure"] = {"message": "of the first try"}
    event = {"end": "concluded", **FAILED.to_json()}

    with pytest.raises(TaskDeferred):
        operator.execute_complete(context, event, dict(HANDLE.to_xcom()), deadline=None, starts=1)

    assert hook.submits == 1
    assert context["ti"].pushed["failure"] is None


@pytest.mark.parametrize("timeout", [None, timedelta(hours=1)])
def test_a_deferred_task_hands_its_time_on_to_the_trigger(context, timeout):
    operator = _operator(deferrable=True, execution_timeout=timeout)
    operator.hook = _Hook()
    begun = datetime.now(timezone.utc)

    with pytest.raises(TaskDeferred) as deferral:
        operator.execute(context)

    deadline = deferral.value.trigger.deadline
    assert deferral.value.kwargs["deadline"] == deadline
    if timeout is None:
        assert deadline is None
    else:
        assert timeout <= datetime.fromisoformat(deadline) - begun < timeout + timedelta(minutes=1)


def test_a_job_that_starts_again_has_no_more_time_than_the_first(context):
    operator = _operator(deferrable=True, run_policy={"infrastructure_retries": 1})
    operator.hook = _Hook()
    event = {"end": "concluded", **LOST.to_json()}

    with pytest.raises(TaskDeferred) as deferral:
        operator.execute_complete(context, event, dict(HANDLE.to_xcom()), "2026-01-01T00:00:00+00:00", starts=1)

    assert deferral.value.trigger.deadline == "2026-01-01T00:00:00+00:00"
    assert deferral.value.kwargs["starts"] == 2


def test_a_task_that_is_marked_while_it_submits_ends_what_it_has_submitted(context, state):
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()

    async def submit(job, identity, *, start, admit):
        # A signal handler runs beside the loop; within it, the question for the state would be asked too late.
        await asyncio.to_thread(operator.on_kill)
        state.answer = "failed"
        return SimpleNamespace(handle=HANDLE, adopted=None)

    hook.submit = submit
    operator.execute(context)

    assert hook.cancelled == [("train", HANDLE, "the task is failed")]


@pytest.mark.parametrize(
    ("deployment", "backend", "adopted", "warns"),
    [
        ("", "native", None, True),
        ("staging", "native", None, False),
        ("", "local", None, False),
        ("", "native", "it ran", False),
    ],
)
def test_a_submit_to_a_cluster_warns_where_nothing_names_this_airflow(
    context, monkeypatch, deployment, backend, adopted, warns
):
    monkeypatch.delenv("AIRFLOW__API__BASE_URL", raising=False)
    monkeypatch.setenv("AIRFLOW__TRAINER__DEPLOYMENT", deployment)
    warnings = []
    log = SimpleNamespace(info=lambda *words: None, warning=lambda text, *words: warnings.append(text))
    monkeypatch.setattr(provider.TrainJobOperator, "log", log)
    operator = _operator(wait_for_completion=False)
    operator.hook = hook = _Hook()
    hook.handle, hook.adopted = HANDLE.model_copy(update={"backend": backend, "location": "job/ml/kube"}), adopted

    operator.execute(context)

    assert len([each for each in warnings if "Set [trainer] deployment while none" in each]) == int(warns)


class _Store:
    """Airflow's store of the task's state.

    :param place: what is noted there; None for nothing.
    :param fault: the error of each request.
    """

    def __init__(self, place=None, fault=None):
        self.fault, self.events = fault, []
        self.values = {} if place is None else {"trainer_place": place._asdict()}

    def get(self, key):
        if self.fault:
            raise self.fault
        return self.values.get(key)

    def set(self, key, value, *, retention):
        if self.fault:
            raise self.fault
        assert retention is importlib.import_module("airflow.sdk.execution_time.context").NEVER_EXPIRE
        self.events.append("noted")
        self.values[key] = value

    def delete(self, key):
        if self.fault:
            raise self.fault
        del self.values[key]


HERE, ELSEWHERE = JobPlace("native", "kube", "ml"), JobPlace("native", "kube", "theirs")
with_store = pytest.mark.skipif(not AIRFLOW_V_3_3, reason="Airflow keeps a task's state from 3.3 on")


@pytest.fixture
def elsewhere(monkeypatch):
    """The hook of the place that an earlier try has noted."""
    hook = _Hook()
    monkeypatch.setattr(train_job, "_hook_of", {ELSEWHERE: hook, HERE: None}.get)
    return hook


def _tried(context, store, try_number, outcome=None):
    context["ti"].try_number, context["task_state_store"] = try_number, store
    operator = _operator(deferrable=False)
    operator.hook = _Hook(outcome or JobOutcome(summary={}))
    operator.hook.where = HERE
    return operator


@with_store
@pytest.mark.parametrize(
    ("noted", "try_number", "events"),
    [
        (None, 1, ["noted", "submitted"]),
        (None, 2, ["noted", "submitted"]),
        (HERE, 2, ["submitted"]),
        (ELSEWHERE, 2, ["ended before try 2", "noted", "submitted"]),
    ],
)
def test_what_an_earlier_try_has_submitted_elsewhere_ends_before_anything_starts(
    context, elsewhere, noted, try_number, events
):
    store = _Store(noted)
    operator = _tried(context, store, try_number)
    operator.hook.events = elsewhere.events = store.events

    operator.execute(context)

    assert store.events == events
    assert store.values == {"trainer_place": HERE._asdict()}


@with_store
def test_what_starts_again_after_a_job_elsewhere_that_has_failed_ends_it_first(context, elsewhere):
    store = _Store(ELSEWHERE)
    operator = _tried(context, store, 1)
    operator.run_policy, operator.deferrable = {"infrastructure_retries": 1}, True
    operator.hook.events = elsewhere.events = store.events

    with pytest.raises(TaskDeferred):
        _run(operator, "deferred", context, LOST)

    assert store.events == ["ended before try 1", "noted", "submitted"]


@pytest.mark.parametrize(
    ("fault", "error", "is_final"),
    [
        (ApiError("the cluster does not answer.", status=503), Rejected, False),
        (SubmitError("the backend is gone.", retryable=False), AirflowFailException, True),
        (OSError("the disk is gone."), Rejected, False),
    ],
)
def test_nothing_starts_while_what_an_earlier_try_has_submitted_elsewhere_may_train(
    context, elsewhere, fault, error, is_final
):
    store = _Store(ELSEWHERE)
    operator, elsewhere.fault = _tried(context, store, 2), fault

    with pytest.raises(error, match=rf"namespace theirs\).*{fault}.* Nothing was started\..*'trainer_place'") as raised:
        operator.execute(context)

    assert isinstance(raised.value, AirflowFailException) == is_final
    assert (operator.hook.submits, store.values) == (0, {"trainer_place": ELSEWHERE._asdict()})


@with_store
@pytest.mark.parametrize("try_number", [1, 2])
def test_nothing_starts_while_airflow_does_not_take_its_place(context, elsewhere, try_number):
    """A try that is out of date gets 404: its task instance has another id by now."""
    operator = _tried(context, _Store(fault=RuntimeError("404")), try_number)

    with pytest.raises(Rejected, match=r"task's state \(404\).*nothing was started") as raised:
        operator.execute(context)

    assert not isinstance(raised.value, AirflowFailException)
    assert operator.hook.submits == 0


def test_a_job_starts_where_airflow_keeps_no_state_of_the_task(context, elsewhere):
    operator = _tried(context, None, 2)

    operator.execute(context)

    assert (operator.hook.submits, elsewhere.events) == (1, [])


@pytest.mark.parametrize(("fault", "values"), [(None, {}), (RuntimeError("no"), {"trainer_place": HERE._asdict()})])
def test_a_task_that_has_succeeded_may_be_cleared_once_its_place_is_gone(context, state, fault, values):
    store, hook = _Store(HERE, fault), _Hook()
    state.answer, context["task_state_store"] = "success", store
    ti = context["ti"]
    ti.task, ti.get_template_context = SimpleNamespace(succeeded_job=(hook, HANDLE)), lambda: context

    settle(ti)

    assert (store.values, hook.acknowledged) == (values, [HANDLE])


def test_a_try_whose_fields_are_refused_ends_what_an_earlier_one_has_submitted(context, elsewhere, state):
    operator = _tried(context, _Store(ELSEWHERE), 2)
    operator.framework, state.answer = "pytroch", "failed"

    with pytest.raises(AirflowFailException, match="pytroch"):
        operator.execute(context)
    operator.on_kill()

    assert elsewhere.cancelled == [("train", None, "the task is failed")]
    assert operator.hook.cancelled == []


@pytest.mark.parametrize(("try_number", "may_have_job"), [(1, False), (2, True)])
def test_a_try_that_fails_before_its_submit_may_have_the_job_of_an_earlier_one(context, try_number, may_have_job):
    context["ti"].try_number = try_number
    operator = _operator(framework="pytroch")
    assert operator.may_have_job  # in a process that resumes, and fails before it knows its handle

    with pytest.raises(AirflowFailException):
        operator.execute(context)

    assert operator.may_have_job is may_have_job


@pytest.mark.parametrize(("try_number", "is_final"), [(1, True), (2, False)])
def test_a_connection_that_is_wrong_is_no_reason_to_give_up_a_job_that_may_run(context, try_number, is_final):
    context["ti"].try_number = try_number
    operator = _operator()
    operator.hook = hook = _Hook()

    async def choose(job):
        raise BackendUnavailable("Connection 'kube': its extra is no JSON object.")

    hook.choose = choose

    with pytest.raises(AirflowException, match="no JSON object") as caught:
        operator.execute(context)

    assert isinstance(caught.value, AirflowFailException) is is_final


def test_nothing_is_ended_that_was_not_started(state):
    operator = _operator()
    operator.hook = hook = _Hook()
    state.answer = "failed"

    operator.on_kill()

    assert hook.cancelled == []


@pytest.mark.parametrize("deadline", [None, "2026-01-01T00:00:00+00:00"])
def test_a_trigger_is_what_its_row_says(deadline):
    trigger = TrainJobTrigger(dict(HANDLE.to_xcom()), "try-1", deadline, cancel_on_kill=True, startup_timeout=60)

    path, kwargs = json.loads(json.dumps(trigger.serialize()))
    module, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(module), name)(**kwargs)

    assert JobHandle.parse(again.job) == HANDLE
    assert (again.reader, again.deadline) == ("try-1", deadline)
    assert (again.cancel_on_kill, again.startup_timeout) == (True, 60)


def _sensor(job):
    with DAG("d", schedule=None):
        return provider.TrainJobSensor(task_id="wait", job=job)


@pytest.mark.parametrize("job", [HANDLE.to_xcom(), json.dumps(HANDLE.to_xcom())])
def test_a_sensor_reads_the_handle(job):
    assert _sensor(job).handle == HANDLE


def test_a_deferred_sensor_leaves_the_job_to_its_owner(context):
    with DAG("d", schedule=None):
        sensor = provider.TrainJobSensor(task_id="wait", job=HANDLE.to_xcom(), deferrable=True)

    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)

    assert JobHandle.parse(deferred.value.trigger.job) == HANDLE
    assert not deferred.value.trigger.cancel_on_kill


def test_a_sensor_without_a_handle_fails_for_good(context):
    with pytest.raises(AirflowFailException, match="the handle that an operator pushed"):
        _sensor("{}").poke(context)


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_job_that_another_one_replaces_sends_no_metrics(context, monkeypatch, deferrable):
    sent = []
    monkeypatch.setattr("airflow_trainer_provider.operators.outcome.emit_stats", lambda *words: sent.append(words[2]))
    operator = _operator(deferrable=deferrable, run_policy={"infrastructure_retries": 1})
    operator.hook = _Hook(outcomes=[LOST, SUCCEEDED])
    context["ti"].task = operator

    _go(operator, context, [LOST, SUCCEEDED])

    assert sent == [SUCCEEDED]
