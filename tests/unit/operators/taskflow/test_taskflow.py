"""``@task.pytorch_job`` and its siblings, as far as they can be seen without a scheduler."""

from __future__ import annotations

import importlib
import inspect
import json
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator
from airflow.sdk import DAG, TaskGroup
from airflow.triggers.base import TriggerEvent

import airflow_trainer_provider as provider
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.get_provider_info import DECORATORS, get_provider_info
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import spec_digest
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.operators import outcome
from airflow_trainer_provider.operators.taskflow import decorators
from airflow_trainer_provider.operators.taskflow import operator as operators
from airflow_trainer_provider.operators.taskflow.decorators import (
    mpi_job_task as mpi_job,
)
from airflow_trainer_provider.operators.taskflow.decorators import (
    pytorch_job_task as pytorch_job,
)
from airflow_trainer_provider.operators.taskflow.decorators import (
    train_job_task as train_job,
)
from airflow_trainer_provider.operators.train_job import TrainJobOperator
from airflow_trainer_provider.triggers.payload import Payload

HANDLE = SimpleNamespace(name="j")


def train(rows, rate=0.1, ds=None):
    return {"rows": rows, "rate": rate}


def needs_context(rows, ti):
    return rows


@pytest.fixture(autouse=True)
def dag():
    with DAG("d", schedule=None) as dag:
        yield dag


def _operator(decorator, function, *args, **kwargs):
    return decorator(backend="local")(function)(*args, **kwargs).operator


def _call(operator):
    return json.loads(operator._job().spec.function.files["call.json"])


def test_every_decorator_of_the_provider_is_there_and_has_the_parameters_of_its_operator():
    declared = {each["name"]: each["class-name"] for each in get_provider_info()["task-decorators"]}
    assert set(declared) == set(DECORATORS)
    frameworks = set()
    for name, path in declared.items():
        module, _, attribute = path.rpartition(".")
        decorator = getattr(importlib.import_module(module), attribute)
        fields = {"framework": "jax"} if name == "train_job" else {}
        made = decorator(task_id=name, backend="local", num_nodes=2, **fields)(train)([1]).operator
        assert made.custom_operator_name == f"@task.{name}"
        assert set(TrainJobOperator.template_fields) | {"op_args", "op_kwargs"} == set(made.template_fields)
        assert made._job().spec.num_nodes == 2
        frameworks.add(made.framework)
    assert frameworks == {"pytorch", "tensorflow", "mpi", "xgboost", "paddle", "jax"}


def test_the_call_has_the_arguments():
    operator = _operator(pytorch_job, train, [1, (2, 3)], rate=0.5)

    call = _call(operator)

    assert (call["function"], call["args"], call["kwargs"]) == ("train", [[1, [2, 3]]], {"rate": 0.5})
    assert operator._job().leader.argv == ("torchrun", "--no_python", "python3", "$(TRAINER_FUNCTION)/runner.py")
    assert operator.is_async is False


def test_slots_per_worker_is_a_parameter_under_mpi():
    made = mpi_job(backend="local", slots_per_worker=3)(train)([1]).operator

    assert made._job().spec.num_proc_per_node == 3


def test_other_arguments_make_another_job_and_the_same_ones_the_same():
    specs = [_operator(pytorch_job, train, rows)._job().spec for rows in ([1], [1], [2])]
    digests = [spec_digest(spec) for spec in specs]

    assert digests[0] == digests[1] != digests[2]
    # Not that of the files, which have the lines of the DAG file.
    assert specs[0].function.digest == specs[1].function.digest != specs[2].function.digest


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"command": ["python"]}, "command"),
        ({"args": ["a"]}, "args"),
        ({"manifest": {}}, "manifest"),
    ],
)
def test_a_command_is_refused_when_the_file_is_parsed(fields, name):
    with pytest.raises(SpecError, match=f"{name}: got 'a value'; allowed: no value beside a function"):
        pytorch_job(**fields)(train)


def test_a_command_of_a_role_is_refused():
    operator = pytorch_job(backend="local", num_nodes=2, replicas={"worker": {"args": ["x"]}})(train)([1]).operator

    with pytest.raises(SpecError, match=r"replicas\.worker\.args: got 'a value'"):
        operator._job()


def test_a_function_that_cannot_be_a_job_is_refused_when_it_is_decorated():
    with pytest.raises(SpecError, match="Write a def"):
        pytorch_job(lambda rows: rows)


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (train, [{1, 2}], "rows: got 'a value of type set at its top'"),
        (train, [[1, {"a": b"x"}]], "rows: got \"a value of type bytes at [1]['a']\""),
        (needs_context, [1], "missing a required argument: 'ti'"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused_when_the_file_is_parsed(function, args, said):
    with pytest.raises(SpecError) as refused:
        _operator(pytorch_job, function, *args)

    assert said in str(refused.value)


def test_what_another_task_returns_is_read_when_it_is_known():
    upstream = BaseOperator(task_id="upstream")
    operator = _operator(pytorch_job, train, [upstream.output], rate=upstream.output)
    with pytest.raises(SpecError, match="rate: got 'a value of type"):
        operator._job()

    operator.op_args, operator.op_kwargs = ([{3}],), {"rate": 1}

    assert upstream.task_id in operator.upstream_task_ids
    with pytest.raises(SpecError, match=r"a value of type set at \[0\]"):
        operator._job()


def test_it_is_mapped_and_stands_in_a_group():
    with TaskGroup("group"):
        mapped = pytorch_job(backend="local", num_nodes=2)(train).partial(rate=1).expand(rows=[[1], [2]]).operator

    made = mapped.unmap({"op_kwargs": {"rows": [2], "rate": 1}})

    assert made.task_id == "group.train"
    assert _call(made)["kwargs"] == {"rows": [2], "rate": 1}
    with pytest.raises(SpecError, match="a value of type set"):
        mapped.unmap({"op_kwargs": {"rows": {1}}})


def test_a_preset_may_say_the_framework(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("framework: jax\nargs: [--x]\n")
    (tmp_path / "right.yaml").write_text("framework: jax\n")
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", str(tmp_path))

    right = train_job(backend="local", presets="right")(train)([1]).operator
    wrong = train_job(backend="local", presets="mine", task_id="wrong")(train)([1]).operator

    assert right._job().framework.name == "jax"
    with pytest.raises(SpecError, match="Drop args"):
        wrong._job()


def test_what_the_triggerer_has_waited_for_is_returned():
    operator = _operator(pytorch_job, train, [1])
    operator.hook = SimpleNamespace()
    summary = {"phase": "succeeded", "function": "train", "result": {"loss": 0.5}, "metrics": {}}
    handle = JobHandle(name="j", uid="u", backend="local", framework="pytorch", leader="m-0", owner=1, location="/l")
    pushed = {}
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, max_tries=0)
    ti.task, ti.xcom_push = operator, lambda key, value: pushed.update({key: value})
    event = {"end": "concluded", **JobOutcome(summary=summary).to_json()}

    value = operator.execute_complete({"ti": ti}, event, dict(handle.to_xcom()), deadline=None, starts=1)

    assert (value, pushed) == ({"loss": 0.5}, {"summary": summary})
    assert operator.succeeded_job == (operator.hook, handle)


@pytest.mark.parametrize("rows", [1, 10_000])
def test_an_event_carries_a_large_value_and_its_text_is_short(rows):
    summary = {"phase": "succeeded", "function": "train", "result": [{"id": "é" * 8}] * rows}
    payload = {"end": "concluded", **JobOutcome(summary=summary).to_json()}

    event = TriggerEvent(Payload(payload))

    assert event.model_dump(mode="json")["payload"] == payload
    assert JobOutcome.parse(event.payload).summary == summary
    text = repr(event)
    assert (text == repr(TriggerEvent(payload))) is (rows == 1)
    assert "'end': 'concluded'" in text
    assert len(text) < 1000


@pytest.fixture
def returned(monkeypatch):
    """Function (summary) that has the task return what it does of a job with that summary."""
    operator = _operator(pytorch_job, train, [1])
    operator.hook = SimpleNamespace()
    operator.handle = HANDLE
    settled, pushed = [], {}
    monkeypatch.setattr(outcome, "acknowledge", lambda hook, handle: settled.append(handle))
    task = SimpleNamespace(succeeded_job=(None, HANDLE))
    ti = SimpleNamespace(task=task, xcom_push=lambda key, value: pushed.update({key: value}))

    def call(summary):
        return operator.process_result({"ti": ti}, summary)

    return SimpleNamespace(call=call, ti=ti, pushed=pushed, settled=settled, operator=operator)


@pytest.mark.parametrize("value", [{"a": 1}, [1], None, "x"])
def test_the_task_returns_the_value_and_the_summary_has_a_key_of_its_own(returned, value):
    summary = {"function": "train", "result": value, "phase": "succeeded"}

    assert returned.call(summary) == value
    assert returned.pushed == {"summary": summary}
    assert returned.ti.task.succeeded_job == (None, HANDLE)


def test_a_large_value_is_not_in_the_summary_as_well(returned):
    summary = {"function": "train", "result": "x" * 5000, "result_bytes": 5037, "phase": "succeeded"}

    assert returned.call(summary) == "x" * 5000
    assert returned.pushed == {"summary": {**summary, "result": None}}


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"function": "train", "result": None, "result_error": "it has a set"}, "has succeeded, but it has a set."),
        ({"result": None}, "nothing shows that the function was called to its end"),
        ({"result": {"a": 1}}, "nothing shows that the function was called to its end"),
    ],
)
def test_without_a_value_the_task_fails_for_good_and_the_summary_is_kept(returned, summary, said):
    with pytest.raises(AirflowFailException, match=said):
        returned.call(summary)

    assert returned.pushed == {"summary": summary}
    assert returned.settled == [HANDLE]
    assert not hasattr(returned.ti.task, "succeeded_job")


def annotated(rows) -> dict[str, float]:
    return {"loss": 0.1}


@pytest.mark.parametrize("fields", [{"render_only": True}, {"wait_for_completion": False}])
def test_what_is_no_value_of_the_function_is_pushed_whole(fields):
    assert pytorch_job(backend="local")(annotated)([1]).operator.multiple_outputs is True
    assert pytorch_job(backend="local", **fields)(annotated)([1]).operator.multiple_outputs is False
    mapped = pytorch_job(backend="local", **fields)(annotated).expand(rows=[[1]]).operator
    assert mapped.unmap({"op_kwargs": {"rows": [2]}}).multiple_outputs is False


#: What the provider pushes of a job.
OWN = {"job", "request", "status", "progress", "failure", "summary", "_link_ToolLink_board"}


@pytest.mark.parametrize(
    ("has_outputs", "pushes", "value", "pushed", "airflow_pushes"),
    [
        (True, True, {"loss": 1}, {}, True),
        (True, True, {"loss": 1, **dict.fromkeys(OWN, 2)}, {"loss": 1}, False),
        # Airflow's own error names the type.
        (True, True, ["job"], {}, True),
        (False, True, {"loss": 1, "job": 2}, {}, False),
        # It pushes nothing then.
        (True, False, {"loss": 1, "job": 2}, {}, True),
    ],
)
def test_keys_of_a_value_never_replace_what_the_provider_pushes(
    returned, caplog, capsys, has_outputs, pushes, value, pushed, airflow_pushes
):
    returned.operator.multiple_outputs, returned.operator.do_xcom_push = has_outputs, pushes
    summary = {"function": "train", "result": value}

    assert returned.call(summary) == value

    assert returned.pushed == {"summary": summary, **pushed}
    assert returned.operator.multiple_outputs is airflow_pushes
    # Another test may have set up Airflow's logging.
    said = caplog.text + capsys.readouterr().out
    assert all((name in said) is bool(pushed) for name in (*OWN, "multiple_outputs=False"))


def test_each_parameter_of_the_operators_can_be_given():
    own = {"python_callable", "op_args", "op_kwargs", "include", "kwargs", "self"}
    for function_operator, plain in (
        (operators.MPIFunctionOperator, provider.MPIJobOperator),
        (operators.PyTorchFunctionOperator, provider.PyTorchJobOperator),
    ):
        assert issubclass(function_operator, plain)
    assert set(inspect.signature(operators.FunctionJobOperator.__init__).parameters) == own


def test_each_decorator_is_declared():
    assert {name.removesuffix("_task") for name in vars(decorators) if name.endswith("_task")} == set(DECORATORS)
