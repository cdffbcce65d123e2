"""What Airflow's own rendering makes of fields, as text and as native values, and what the operator makes of that."""

from __future__ import annotations

import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, task
from kubernetes.client import V1PodSpec, V1PodTemplateSpec, V1Volume

from airflow_trainer_provider import TrainJobOperator
from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.errors import BackendUnavailable, SpecError
from airflow_trainer_provider.hooks.settings import load_settings
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.operators.fields import check_names

HANDLE = {
    "name": "j",
    "uid": "u",
    "backend": "native",
    "framework": "jax",
    "leader": "worker-0",
    "owner": 1,
    "location": "native/team/lab",
}


class TaskInstance(SimpleNamespace):
    """A task whose upstream tasks have pushed something."""

    def xcom_pull(self, task_ids, key="return_value", default=None, **_):
        # A second task of a name gets a number behind it.
        return self.pushed.get(task_ids.partition("__")[0], default)


@pytest.fixture
def context():
    pushed = {"count": 4, "rate": 0.1, "exact": Decimal("0.10"), "flag": True, "words": ["--epochs", 4]}
    ti = TaskInstance(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, pushed=pushed)
    return {"ti": ti, "params": {"epochs": 4, "rate": 0.1, "nodes": 2, "year": 2024, "version": "1.10", "flag": True}}


def _pushes(name: str) -> Any:
    @task(task_id=name)
    def push() -> None:
        """What it pushes is in the context."""

    return push()


def _operator(*, native: bool = False, **fields: Any) -> TrainJobOperator:
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        given = {name: value() if callable(value) else value for name, value in fields.items()}
        return TrainJobOperator(**({"task_id": "train", "framework": "jax", "image": "i", "backend": "native"} | given))


def _job(operator: TrainJobOperator, context: dict[str, Any]) -> Any:
    operator.render_template_fields(context)
    return operator._job()


def _refusal(operator: TrainJobOperator, context: dict[str, Any]) -> str:
    operator.render_template_fields(context)
    with pytest.raises(AirflowFailException) as caught:
        operator.execute(context)
    # The Rendered Template tab says the same.
    assert str(caught.value) == json.loads(operator.rendered_job)["error"]
    return str(caught.value)


@pytest.mark.parametrize("native", [False, True])
def test_numbers_of_xcom_and_of_templates_are_words(context, native):
    operator = _operator(
        native=native,
        command=lambda: ["python", "train.py", _pushes("count")],
        args=lambda: ["--rate", _pushes("rate"), "--exact", _pushes("exact"), "{{ params.epochs }}", "4"],
        env=lambda: {"RATE": _pushes("rate"), "EPOCHS": "{{ params.epochs }}", "FIXED": "7"},
        replicas=lambda: {"worker": {"env": {"N": _pushes("count")}, "overrides": [{"index": 0, "args": [1]}]}},
        num_nodes="{{ params.nodes }}",
    )
    spec = _job(operator, context).spec

    assert spec.command == ("python", "train.py", "4")
    assert spec.args == ("--rate", "0.1", "--exact", "0.10", "4", "4")
    assert spec.env == {"RATE": "0.1", "EPOCHS": "4", "FIXED": "7"}
    assert spec.replicas["worker"].env == {"N": "4"}
    assert spec.num_nodes == 2


def test_a_whole_list_of_xcom_is_a_command_line(context):
    assert _job(_operator(args=lambda: _pushes("words")), context).spec.args == ("--epochs", "4")


def test_a_list_in_a_native_template_is_a_command_line(context):
    operator = _operator(native=True, args="{{ ti.xcom_pull('words') }}")

    assert _job(operator, context).spec.args == ("--epochs", "4")


@pytest.mark.parametrize(
    ("native", "fields", "words"),
    [
        (False, {"args": "{{ ti.xcom_pull('words') }}"}, ["args: got 'str'", "render_template_as_native_obj=True"]),
        (False, {"env": "{{ params }}"}, ["env: got 'str'", "render_template_as_native_obj=True"]),
        (True, {"args": ["--flag", "{{ params.flag }}"]}, ["args[1]: got True", "\"'true'\""]),
        (True, {"args": ["True"]}, ["args[0]: got True", "\"'true'\""]),
        (False, {"args": lambda: [_pushes("flag")]}, ["args[0]: got True", '"true" or "1"']),
        (False, {"args": lambda: ["a", _pushes("nothing")]}, ["args[1]: got None", "not pushed to XCom"]),
        (False, {"env": lambda: {"A": _pushes("nothing")}}, ["env.A: got None", "not pushed to XCom"]),
        (True, {"image": "{{ params.version }}"}, ["image: got 1.1", "two pairs of quotes"]),
        (True, {"namespace": "{{ params.version }}"}, ["namespace: got 1.1", "two pairs of quotes"]),
        (False, {"num_nodes": "{{ params.version }}"}, ["num_nodes: got '1.10'", "a whole number"]),
        (False, {"num_nodes": lambda: _pushes("words")}, ["num_nodes: got 'list'", "Write the number itself"]),
    ],
)
def test_what_rendering_made_useless_names_the_way_out(context, native, fields, words):
    message = _refusal(_operator(native=native, **fields), context)

    assert all(word in message for word in words), message


@pytest.mark.parametrize("field", ["working_dir", "runtime_ref", "namespace"])
def test_digits_stay_text_under_native_rendering(context, field):
    operator = _operator(native=True, **{field: "{{ params.year }}"})
    job = _job(operator, context)

    assert getattr(operator if field == "namespace" else job.spec, field) == "2024"


@pytest.mark.parametrize("backend", ["native", "auto"])
@pytest.mark.parametrize("namespace", ["team/../kube-system", "Team", "a" * 64, "-a", "team.a", ["team"], 1.5])
def test_a_namespace_that_can_be_none_is_refused(context, backend, namespace):
    operator = _operator(namespace=namespace)
    operator.backend = backend

    assert "namespace: got" in _refusal(operator, context)


def test_a_namespace_of_the_connection_or_the_configuration_is_checked(monkeypatch):
    with pytest.raises(BackendUnavailable, match="field namespace is 'a/b'"):
        ClusterConnection.from_extra("lab", {"namespace": "a/b"})
    monkeypatch.setenv("AIRFLOW__TRAINER__NAMESPACE", "a/b")
    with pytest.raises(SpecError, match=r"\[trainer\] namespace: got 'a/b'"):
        load_settings()


def test_a_name_that_is_rendered_to_nothing_is_the_default():
    task = SimpleNamespace(kubernetes_conn_id="", namespace="")

    check_names(task, ("kubernetes_conn_id", "namespace"))

    assert (task.kubernetes_conn_id, task.namespace) == ("kubernetes_default", None)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"tolerations": []}, "scheduling.tolerations"),
        ({"node_selector": {}, "host_network": True}, "scheduling.node_selector"),
        ({"cmds": ["python"]}, "command"),
        ({"env_vars": {}}, "env"),
        ({"labels": {}}, "pod.labels"),
        ({"queue_name": "team"}, "scheduling.queue_name"),
    ],
)
def test_a_parameter_of_the_kubernetes_pod_operator_names_its_place_at_dag_parsing(fields, place):
    with pytest.raises(SpecError, match=f"Write it as {place}"):
        _operator(**fields)


def test_any_other_parameter_is_airflows_to_refuse():
    with pytest.raises(TypeError, match="Invalid arguments"):
        _operator(colour="red")


TEMPLATE = V1PodTemplateSpec(spec=V1PodSpec(containers=[], volumes=[V1Volume(name="data")]))


@pytest.mark.parametrize(
    ("template", "field"),
    [
        (TEMPLATE, "pod_template: got 'V1PodTemplateSpec'"),
        ({"spec": {"volumes": [V1Volume(name="data")]}}, "pod_template.spec.volumes[0]: got 'V1Volume'"),
        ({"spec": {"service_account_name": "s"}}, "Write it as Kubernetes does: serviceAccountName"),
        (TEMPLATE.to_dict(), "pod_template.spec.active_deadline_seconds"),
    ],
    ids=["model", "models within", "snake case", "to_dict"],
)
def test_a_model_of_kubernetes_client_names_the_way_out(context, template, field):
    if field.startswith("pod_template.spec.active"):
        # None is no value, but names are names.
        template["spec"]["active_deadline_seconds"] = 5
    message = _refusal(_operator(pod_template=template), context)

    assert field in message
    if ": got 'V1" in field:
        assert "sanitize_for_serialization" in message


def test_what_sanitizes_a_model_of_kubernetes_client_makes_a_pod_template(context, monkeypatch):
    from kubernetes.client import ApiClient

    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", '{"conn_type": "kubernetes"}')
    operator = _operator(pod_template=ApiClient().sanitize_for_serialization(TEMPLATE))

    operator.render_template_fields(context)

    assert {"name": "data"} in next(_volumes(yaml.safe_load_all(operator.rendered_job)))


def _volumes(documents: Any) -> Any:
    return (each["spec"]["template"]["spec"]["volumes"] for each in documents if each["kind"] == "Job")


@pytest.mark.parametrize(
    "value",
    ["", "[", "[]", "1" * 5000, '{"a":' * 5000, {}, {**HANDLE, "name": "../other"}, {**HANDLE, "owner": "x"}, 5, b"{}"],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_handle_is_refused_and_not_shown(value):
    with pytest.raises(SpecError, match=r"job: got '(str|dict|int|bytes)'"):
        JobHandle.parse(value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"backend": "slurm"}, "job.backend: got 'slurm'"),
        ({"location": "native"}, "job.location: got 'native'"),
        ({"location": "cronjob/team/lab"}, "job.location"),
        ({"location": "native/../lab"}, "job.location"),
    ],
)
async def test_a_handle_that_leads_nowhere_is_refused(change, field):
    handle = JobHandle.parse({**HANDLE, **change})

    with pytest.raises(SpecError) as caught:
        await TrainerHook.for_job(handle).backend_of(handle)

    assert field in str(caught.value)
