"""The links of a task to the tools of its job, to its page in a dashboard, and to its MLflow run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

import airflow_trainer_provider as provider
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.operators.links import (
    JOB_LINKS,
    DashboardLink,
    MlflowLink,
    ToolLink,
    links_of,
    push_links,
)

TOOLS = {"lab": "http://n:<port>/", "tb": "http://tb.example/", "gate": "http://<node>:30600/"}
HANDLE = JobHandle(
    name="j", uid="u", backend="native", framework="jax", leader="worker-0", owner=1, location="l", tools=TOOLS
)
_JOBS = [link.name for link in JOB_LINKS]


def _operator(**fields):
    with DAG("d", schedule=None):
        return provider.TrainJobOperator(task_id="train", framework="jax", **fields)


def _pushed(operator, map_index=-1, handle=HANDLE):
    pushed = {}
    ti = SimpleNamespace(map_index=map_index, xcom_push=lambda key, value: pushed.update({key: value}))
    push_links(operator, handle, ti)
    return pushed


@pytest.mark.parametrize(
    ("tools", "presets", "names"),
    [
        (None, None, []),
        ({}, None, []),
        ({"tb": {"port": 6006}, "lab": "{{ params.lab }}"}, None, ["tb", "lab"]),
        (None, "large", ["Tool"]),
        ("{{ params.tools }}", None, ["Tool"]),
        ({"{{ params.tool }}": {"port": 6006}}, None, ["Tool"]),
        ({1: {"port": 6006}}, None, ["Tool"]),
    ],
)
def test_a_task_has_a_link_for_each_tool_that_the_dag_file_names(tools, presets, names):
    names = [*names, "Kubernetes dashboard", "MLflow run"]
    assert [link.name for link in links_of(tools, presets)] == names
    assert [link.name for link in _operator(tools=tools, presets=presets).operator_extra_links] == names


def test_only_addresses_that_can_be_opened_are_pushed():
    operator = _operator(tools={name: {"port": 80} for name in (*TOOLS, "none")})

    assert _pushed(operator) == {"_link_ToolLink_tb": "http://tb.example/"}


def test_a_mapped_task_has_one_link_to_the_first_tool():
    handle = HANDLE.model_copy(update={"tools": {"tb": "http://tb.example/", "lab": "http://lab.example/"}})
    tools = {name: {"port": 80} for name in ("lab", "tb")}

    assert [link.name for link in provider.TrainJobOperator.operator_extra_links] == ["Tool", *_JOBS]
    for index in (0, 1):
        assert _pushed(_operator(tools=tools), index, handle)["_link_ToolLink"] == "http://tb.example/"
    assert "_link_ToolLink" not in _pushed(_operator(tools=tools), -1, handle)
    assert _pushed(_operator(), 0, handle) == {}


def test_airflow_stores_the_same_address_again_when_the_task_ends():
    operator = _operator(tools={"tb": {"port": 80}})
    link = operator.operator_extra_links[0]
    assert link.get_link(operator, ti_key=None) == ""

    operator.handle = HANDLE

    assert link.get_link(operator, ti_key=None) == "http://tb.example/"
    assert ToolLink("gate").get_link(operator, ti_key=None) == ""


TEMPLATE = "https://k8s.example/#/{resource}/{namespace}/{kind}/{name}"


@pytest.mark.parametrize(
    ("backend", "location", "url"),
    [
        ("native", "native/ml/kube", "https://k8s.example/#/services/ml/Service/j"),
        ("trainer", "trainjob/ml/kube/1", "https://k8s.example/#/trainjobs.trainer.kubeflow.org/ml/TrainJob/j"),
        ("native", "job/ml/kube", "https://k8s.example/#/jobs.batch/ml/Job/j"),
        ("local", "/srv/trainer", None),
    ],
)
def test_the_dashboard_shows_the_main_object_of_a_job_on_a_cluster(backend, location, url, monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__DASHBOARD_URL", TEMPLATE)
    handle = HANDLE.model_copy(update={"backend": backend, "location": location, "tools": {}})
    operator = _operator()

    assert _pushed(operator, handle=handle) == ({"_link_DashboardLink": url} if url else {})

    operator.handle = handle
    assert DashboardLink().get_link(operator, ti_key=None) == (url or "")


def test_without_an_address_there_is_no_link_to_a_dashboard(monkeypatch):
    monkeypatch.delenv("AIRFLOW__TRAINER__DASHBOARD_URL", raising=False)

    assert DashboardLink().address(HANDLE.model_copy(update={"location": "native/ml/kube"})) == ""
    assert DashboardLink().get_link(_operator(), ti_key=None) == ""


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"mlflow_run_url": "https://mlflow.example/#/experiments/1/runs/0a"}, True),
        ({"mlflow_run_url": "javascript:alert(1)"}, False),
        ({"mlflow_run_url": "https://user:pass@mlflow.example/"}, False),
        ({"mlflow_run_url": "https://mlflow.example/?token=8d7fa8s7df6a8s7d6f"}, False),
        ({"mlflow_run_url": "//mlflow.example/"}, False),
        ({"mlflow_run_url": 'https://mlflow.example/"><script>'}, False),
        ({"mlflow_run_url": ["https://mlflow.example/"]}, False),
        ({}, False),
        ("https://mlflow.example/", False),
        (None, False),
    ],
)
def test_the_result_names_its_mlflow_run(result, shown):
    operator = _operator()
    assert MlflowLink().get_link(operator, ti_key=None) == ""

    operator.outcome = JobOutcome(summary={"phase": "succeeded", "result": result})

    assert MlflowLink().get_link(operator, ti_key=None) == (result["mlflow_run_url"] if shown else "")


def test_a_job_that_failed_has_no_mlflow_run():
    operator = _operator()
    failure = Diagnosis(job="j", phase="failed", reason="Error", message="It broke.")

    operator.outcome = JobOutcome(failure=failure)

    assert MlflowLink().get_link(operator, ti_key=None) == ""
