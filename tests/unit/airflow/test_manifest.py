"""The operator's manifest: what it may be, what goes with it, and what is shown of it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG
from airflow.sdk._shared.secrets_masker import redact

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
    # As Airflow redacts what its log and its Rendered Template tab get.
    assert "s3cr3t-value" not in redact(task.manifest, "manifest")


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
    ],
)
def test_what_the_manifest_itself_says_is_refused_beside_it(operator, context, fields, named):
    message = _refusal(operator(JOB, **fields), context)

    assert all(f"{name}: got" in message for name in named)
    assert "Write it in the manifest, or drop manifest" in message


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
        ({"apiVersion": "batch/v1", "kind": "Job", "spec": {"at": object()}}, "JSON values"),
        ({"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}}, "PyTorchJob (kubeflow.org/v1)"),
    ],
)
def test_what_is_no_job_is_refused_and_nothing_of_it_told(operator, context, manifest, why):
    message = _refusal(operator(manifest), context)

    assert why in message
    assert "s3cr3t" not in message


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


def test_a_time_to_live_that_its_kind_does_not_have_is_refused(operator, context):
    trainjob = {**JOB, "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    policy = {"ttl_seconds_after_finished": 5}
    task = operator(trainjob, run_policy=policy, on_finish_action="keep", render_only=True)
    task.render_template_fields(context)
    from airflow_trainer_provider.cluster.backend import ClusterBackend
    from airflow_trainer_provider.errors import UnsupportedField

    with pytest.raises(UnsupportedField, match="ttl_seconds_after_finished"):
        ClusterBackend("trainer", None, "n").check(task._job())
