"""A task's job is put together from presets and its own fields."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

import airflow_trainer_provider as provider

MANIFEST = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}}}


@pytest.fixture
def context():
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, max_tries=0)
    return {"ti": ti, "params": {"presets": ["large", "two"]}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "large.yaml").write_text(
        "framework: xgboost\nnum_nodes: 4\ncommand: [python, large.py]\nenv: {A: '1', B: '1'}\n"
        "run_policy: {grace_period_seconds: 5}\n"
    )
    (tmp_path / "two.yaml").write_text("num_workers: 1\nenv: {B: '2'}\n")
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path / "jobs"))
    return tmp_path


def operator(**fields):
    with DAG("d", schedule=None):
        return provider.TrainJobOperator(task_id="train", render_only=True, **{"backend": "local", **fields})


def test_presets_are_merged_in_order_and_the_tasks_own_fields_win(context, capsys):
    task = operator(presets=["large", "two"], env={"C": "3"}, command=["python", "mine.py"])

    job = yaml.safe_load(task.execute(context))

    assert [replica["command"] for replica in job["replicas"]] == ["python mine.py"] * 2
    assert {name: job["replicas"][0]["env"][name] for name in "ABC"} == {"A": "1", "B": "2", "C": "3"}
    line = "Fields from preset 'large': framework, env.A, run_policy.grace_period_seconds; from preset 'two': "
    assert f"{line}num_workers, env.B; from the task: command, env.C." in capsys.readouterr().out


@pytest.mark.parametrize("presets", ["large,two", "{{ params.presets | join(',') }}"])
def test_the_names_may_be_a_template(context, presets):
    task = operator(presets=presets)

    task.render_template_fields(context)

    assert len(yaml.safe_load(task.rendered_job)["replicas"]) == 2


def test_without_presets_the_log_does_not_name_them(context, capsys):
    operator(framework="jax", command=["true"]).execute(context)

    assert "Fields" not in capsys.readouterr().out


def test_an_operators_framework_wins(context):
    with DAG("d", schedule=None):
        task = provider.JAXJobOperator(task_id="train", backend="local", presets="large", command=["true"])

    assert task._job().framework.name == "jax"


def test_the_tasks_time_bounds_the_job_where_nothing_else_does(folder):
    (folder / "timed.yaml").write_text("run_policy: {active_deadline_seconds: 9}\n")
    minute = timedelta(seconds=60)

    bounded = operator(presets="large", execution_timeout=minute)._job().spec.run_policy
    preset = operator(presets="large,timed", execution_timeout=minute)._job().spec.run_policy

    assert (bounded.active_deadline_seconds, bounded.grace_period_seconds) == (120, 5)
    assert preset.active_deadline_seconds == 9


def test_a_manifest_takes_of_presets_what_it_takes_of_the_task(folder):
    (folder / "kept.yaml").write_text("on_finish_action: keep\n")

    assert operator(manifest=MANIFEST, backend=None, presets="kept")._job().spec.on_finish_action == "keep"
    with pytest.raises(Exception, match="no value beside manifest"):
        operator(manifest=MANIFEST, backend=None, presets="two")._job()


def test_an_unknown_preset_fails_the_task_for_good(context, folder):
    with pytest.raises(AirflowFailException, match=r"Did you mean 'large'\?"):
        operator(presets="larg").execute(context)
    assert not (folder / "jobs").exists()


def test_a_secret_in_a_preset_is_masked_as_the_tasks_own(context, folder, monkeypatch):
    masked = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", masked.extend)
    (folder / "secret.yaml").write_text("env: {DB_PASSWORD: planted-7}\n")
    task = operator(presets="large,secret")

    task.render_template_fields(context)

    assert masked == ["planted-7"]
    assert "planted-7" not in task.rendered_job
