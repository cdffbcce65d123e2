"""The operator's manifest: what it may be, what goes with it, and what is shown of it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG
from airflow.sdk._shared.secrets_masker import redact
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields
from jinja2 import TemplateNotFound

from airflow_trainer_provider import PyTorchJobOperator, TrainJobOperator

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "nightly", "namespace": "theirs"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "train:{{ params.tag }}",
                        "args": ["conf.yaml"],
                        "env": [{"name": "API_TOKEN", "value": "s3cr3t-value"}],
                    }
                ],
            }
        }
    },
}
TEXT = yaml.safe_dump(JOB)


@pytest.fixture
def context():
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, pushed={})
    return {"ti": ti, "params": {"tag": "7"}}


@pytest.fixture
def operator(tmp_path):
    def operator(manifest, cls=TrainJobOperator, **fields):
        with DAG("d", schedule=None, template_searchpath=[str(tmp_path)]):
            return cls(task_id="train", manifest=manifest, **fields)

    return operator


def _rendered(operator, context):
    operator.render_template_fields(context)
    return operator.rendered_job


def _refusal(operator, context):
    operator.render_template_fields(context)
    with pytest.raises(AirflowFailException) as caught:
        operator.execute(context)
    return str(caught.value)


@pytest.mark.parametrize("suffix", ["", ".yaml", ".yml", ".json"])
def test_a_mapping_a_text_and_a_file_are_rendered_as_templates(operator, context, tmp_path, suffix):
    (tmp_path / f"job{suffix}").write_text(json.dumps(JOB) if suffix == ".json" else TEXT)
    forms = [f"job{suffix}"] if suffix else [JOB, TEXT]
    for form in forms:
        shown = yaml.safe_load(_rendered(operator(form), context))

        assert shown["spec"]["template"]["spec"]["containers"][0]["image"] == "train:7"
        assert shown["spec"]["template"]["spec"]["containers"][0]["args"] == ["conf.yaml"]
        assert shown["metadata"]["name"].startswith("nightly-")


def test_a_mapped_tasks_file_is_rendered_as_well(operator, context, tmp_path):
    (tmp_path / "job.yaml").write_text(TEXT)
    task = operator("job.yaml")
    task._do_render_template_fields(
        parent=task,
        template_fields=task.template_fields,
        context=context,
        jinja_env=task.get_template_env(),
        seen_oids=set(),
    )

    assert "train:7" in task.rendered_job


def test_without_a_manifests_file_no_field_is_taken_for_one(context):
    with DAG("d", schedule=None):
        task = TrainJobOperator(task_id="t", framework="jax", backend="local", command=["run", "conf.yaml"])

    task.render_template_fields(context)

    assert task.command == ["run", "conf.yaml"]


@pytest.mark.parametrize("manifest", [JOB, TEXT], ids=["mapping", "text"])
def test_what_looks_like_a_secret_is_not_shown(operator, context, manifest):
    task = operator(manifest)

    assert "s3cr3t-value" not in _rendered(task, context)
    # As Airflow masks its log, and stores the fields for its Rendered Template tab.
    assert "s3cr3t-value" not in redact("the script wrote s3cr3t-value")
    stored = _serialize_rendered_fields(task)["manifest"]
    assert "s3cr3t-value" not in stored
    assert yaml.safe_load(stored)["spec"]["template"]["spec"]["containers"][0]["image"] == "train:7"


def test_backend_and_namespace_are_the_manifests_and_found_among_the_rendered_fields(operator, context):
    task = operator(JOB)
    shown = yaml.safe_load(_rendered(task, context))

    # Whoever ends the jobs of a killed task reads them there.
    assert (task.backend, task.namespace) == ("native", "theirs") == ("native", shown["metadata"]["namespace"])


def test_the_operators_namespace_wins(operator, context):
    assert yaml.safe_load(_rendered(operator(JOB, namespace="ours"), context))["metadata"]["namespace"] == "ours"


@pytest.mark.parametrize("backend", ["trainer", "local"])
def test_a_backend_that_contradicts_the_kind_is_refused(operator, context, backend):
    assert f"backend: got '{backend}'; allowed: 'native'" in _refusal(operator(JOB, backend=backend), context)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"image": "i"}, ["image"]),
        ({"command": ["c"], "num_nodes": 2, "env": {"A": "b"}}, ["command", "num_nodes", "env"]),
        ({"run_policy": {"backoff_limit": 1}}, ["run_policy.backoff_limit"]),
        ({"pod_template": {"spec": {}}, "runtime_ref": "r"}, ["pod_template", "runtime_ref"]),
        ({"run_policy": {"on_oom": {"factor": 2, "max": "2Gi"}}}, ["run_policy.on_oom"]),
    ],
)
def test_what_the_manifest_itself_says_is_refused_beside_it(operator, context, fields, named):
    message = _refusal(operator(JOB, **fields), context)

    assert all(f"{name}: got" in message for name in named)
    assert "Write it in the manifest, or drop manifest" in message


def test_tools_are_refused_beside_a_manifest_with_another_way_out(operator, context):
    message = _refusal(operator(JOB, tools={"tb": {"port": 6006}}), context)

    assert "tools: got" in message
    assert "Create the Service yourself, with a selector for the labels of the manifest's pods" in message


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("a: 1\n---\nb: 2", "2 documents"),
        ("a: 1\nb: [\n", "line 2, column"),
        ("a: s3cr3t-value\na: 2\n", "comes twice"),
        ("\n", "0 documents"),
        ("just words\n", "str"),
        ({"kind": "Job", "spec": {"a": 1}}, "manifest.apiVersion"),
        ({"apiVersion": "batch/v1", "kind": "Job"}, "manifest.spec"),
        ({"apiVersion": "batch/v1", "kind": "Job", "spec": {"at": object()}}, "text, numbers, lists and mappings"),
        ({"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}}, "PyTorchJob (kubeflow.org/v1)"),
    ],
)
def test_what_is_no_job_is_refused_and_nothing_of_it_shown(operator, context, manifest, why):
    message = _refusal(operator(manifest), context)

    assert why in message
    assert "s3cr3t" not in message


def _nested(levels):
    value = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


PYTORCHJOB = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
TRAINJOB = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ({**JOB, "metadata": []}, "manifest.metadata: got 'list'; allowed: a mapping"),
        ({**JOB, "spec": "x"}, "manifest.spec: got 'str'; allowed: a mapping"),
        ({**JOB, "spec": []}, "manifest.spec: got 'list'; allowed: a mapping"),
        ({**JOB, "apiVersion": ["v1"]}, "manifest.apiVersion: got 'list'; allowed: text"),
        ({**JOB, "metadata": {"name": {"a": 1}}}, "manifest.metadata.name: got 'dict'; allowed: text"),
        ({**JOB, "metadata": {"annotations": ["a"]}}, "manifest.metadata.annotations: got 'list'"),
        ({**JOB, "metadata": {"labels": {"a": True}}}, "manifest.metadata.labels.a: got True"),
        ({**JOB, "metadata": {"namespace": "team/x"}}, "manifest.metadata.namespace: got 'team/x'"),
        ({**JOB, "spec": {1: 2}}, "manifest.spec: got 'a key of type int'"),
        ({**JOB, "spec": _nested(100)}, "manifest: got 'more levels'"),
        ({**JOB, "spec": {"a": b"x"}}, "manifest.spec.a: got 'bytes'"),
        ({**JOB, "spec": {"a": float("nan")}}, "manifest.spec.a: got nan"),
        ({**JOB, "spec": {"completions": "2"}}, "manifest.spec.completions: got 'str'; allowed: a whole number"),
        (
            {**JOB, "spec": {"completions": 10**9, "completionMode": "Indexed"}},
            "manifest.spec.completions: got 1000000",
        ),
        ({**JOB, "spec": {"completions": 3, "completionMode": {}}}, "manifest.spec.completionMode: got 'dict'"),
        ({**PYTORCHJOB, "spec": {"pytorchReplicaSpecs": []}}, "manifest.spec.pytorchReplicaSpecs: got 'list'"),
        (
            {**PYTORCHJOB, "spec": {"pytorchReplicaSpecs": {"Worker": "x"}}},
            "manifest.spec.pytorchReplicaSpecs.Worker: got 'str'; allowed: a mapping",
        ),
        (
            {**PYTORCHJOB, "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 10**9}}}},
            "manifest.spec.pytorchReplicaSpecs.Worker.replicas: got 1000000000; allowed: a whole number of at most",
        ),
        (
            {
                **PYTORCHJOB,
                "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 9000}, "Worker": {"replicas": 9000}}},
            },
            "manifest.spec: got '18000 replicas'",
        ),
        ({**TRAINJOB, "spec": {"trainer": []}}, "manifest.spec.trainer: got 'list'; allowed: a mapping"),
        ({**TRAINJOB, "spec": {"trainer": {"numNodes": True}}}, "manifest.spec.trainer.numNodes: got True"),
        ({**TRAINJOB, "spec": {"runtimeRef": {"name": "a/../b"}}}, "manifest.spec.runtimeRef: got 'dict'"),
        ("[" * 10_000, "it is nested too deeply"),
        ("- " * 10_000, "it is nested too deeply"),
        ("a: &a [*a]", "It may also contain itself"),
        ("a: " + "1" * 5000, "a number is too long"),
        ("&a {<<: *a, b: 1}", "manifest.apiVersion: got 'nothing'"),
        (
            "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "\n".join(f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join(['*' + chr(97 + at)] * 9)}]" for at in range(9)),
            "manifest: got 'more values'",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_another_shape_is_refused_where_it_stands(operator, context, manifest, field):
    assert field in _refusal(operator(manifest), context)


def test_a_number_is_the_text_of_a_label(operator, context):
    manifest = {**JOB, "metadata": {**JOB["metadata"], "labels": {"year": 2026}}}

    assert yaml.safe_load(_rendered(operator(manifest), context))["metadata"]["labels"]["year"] == "2026"


def test_what_an_earlier_job_was_marked_with_is_left_out(operator, context):
    marks = {"airflow-trainer-provider/cancelled": "yes", "airflow-trainer-provider/groups": "nonsense", "mine": "x"}
    manifest = {**JOB, "metadata": {**JOB["metadata"], "annotations": marks}}
    shown = yaml.safe_load(_rendered(operator(manifest), context))

    annotations = shown["metadata"]["annotations"]
    assert annotations["mine"] == "x"
    assert not {"airflow-trainer-provider/cancelled", "airflow-trainer-provider/groups"} & annotations.keys()


def test_a_date_is_a_text_as_in_kubernetes(operator, context):
    text = TEXT.replace("name: nightly", "name: nightly\n  annotations: {since: 2026-11-21}")

    assert yaml.safe_load(_rendered(operator(text), context))["metadata"]["annotations"]["since"] == "2026-11-21"


def test_a_framework_that_contradicts_the_kind_is_refused(operator, context):
    xgboost = {**JOB, "apiVersion": "kubeflow.org/v1", "kind": "XGBoostJob"}

    assert "'xgboost', which a XGBoostJob runs" in _refusal(operator(xgboost, cls=PyTorchJobOperator), context)


def test_neither_framework_nor_manifest(context):
    with DAG("d", schedule=None):
        task = TrainJobOperator(task_id="t", backend="native")

    assert "Set framework" in _refusal(task, context)


@pytest.mark.parametrize(
    ("api_version", "kind", "backend", "action", "refused"),
    [
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainer", "keep", "can delete a TrainJob after a while"),
        ("kubeflow.org/v2beta1", "MPIJob", "mpi-operator", "keep", None),
        ("kubeflow.org/v1", "PyTorchJob", "training-operator", "keep", None),
        ("kubeflow.org/v1", "PyTorchJob", "training-operator", "delete", "unless the job is kept"),
    ],
)
def test_a_time_to_live_is_for_jobs_that_are_kept(operator, context, api_version, kind, backend, action, refused):
    manifest = {**JOB, "apiVersion": api_version, "kind": kind}
    policy = {"ttl_seconds_after_finished": 5}
    task = operator(manifest, run_policy=policy, on_finish_action=action, render_only=True)
    task.render_template_fields(context)
    from airflow_trainer_provider.cluster.backend import ClusterBackend
    from airflow_trainer_provider.errors import UnsupportedField

    with pytest.raises(UnsupportedField, match=refused) if refused else nullcontext():
        ClusterBackend(backend, None, "n").check(task._job())


def test_with_an_execution_timeout_the_cluster_itself_ends_the_job_a_minute_later(operator, context):
    def deadline(**fields):
        return yaml.safe_load(_rendered(operator(JOB, **fields), context))["spec"].get("activeDeadlineSeconds")

    assert deadline() is None
    assert deadline(execution_timeout=timedelta(hours=2)) == 2 * 3600 + 60


def test_the_name_of_a_manifests_file_is_no_template(operator, context, tmp_path):
    (tmp_path / "job7.yaml").write_text(TEXT)

    with pytest.raises(TemplateNotFound, match=r"job{{ 7 }}\.yaml"):
        operator("job{{ 7 }}.yaml").render_template_fields(context)
