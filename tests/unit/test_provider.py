"""What the provider declares to Airflow, and the settings that it gets in turn."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.configuration import AIRFLOW_HOME

import airflow_trainer_provider
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.get_provider_info import get_provider_info
from airflow_trainer_provider.hooks.settings import Settings, load_settings

OPTIONS = get_provider_info()["config"]["trainer"]["options"]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for option in OPTIONS:
        monkeypatch.delenv(f"AIRFLOW__TRAINER__{option.upper()}", raising=False)


def test_the_provider_info_is_what_airflow_wants():
    info = get_provider_info()
    file = Path(airflow.__file__).with_name("provider_info.schema.json")

    jsonschema.validate(info, json.loads(file.read_text()))
    assert info["versions"] == [airflow_trainer_provider.__version__]


def test_every_setting_is_an_option_that_is_documented():
    assert {option.removesuffix("_days") for option in OPTIONS} == {field.name for field in fields(Settings)}
    for option in OPTIONS.values():
        assert option["description"].endswith(".")
        assert option["type"] in ("string", "integer", "float")
        assert isinstance(option["default"], str)
        assert option["version_added"]


def test_each_option_has_its_default(monkeypatch):
    settings = load_settings()

    assert settings == Settings(
        backend="auto",
        namespace="default",
        deployment="",
        local_root=Path(AIRFLOW_HOME) / "trainer",
        local_keep=timedelta(days=30),
        poll_interval=0.5,
        worker_exit_seconds=10,
        log_replicas="all",
        failure_log_lines=30,
        log_streams=500,
        exec_plugin_env=(),
        node_pool_label=None,
        git_image="",
        s3_image="",
        presets_folder=None,
        policies_folder=None,
        dashboard_url="",
    )


@pytest.mark.parametrize(
    ("option", "value", "name", "read"),
    [
        ("backend", "local", "backend", "local"),
        ("namespace", "ml", "namespace", "ml"),
        ("local_root", "/srv/x", "local_root", Path("/srv/x")),
        ("local_keep_days", "0", "local_keep", None),
        ("local_keep_days", "0.5", "local_keep", timedelta(hours=12)),
        ("poll_interval", "0.05", "poll_interval", 0.05),
        ("worker_exit_seconds", "0", "worker_exit_seconds", 0),
        ("log_replicas", "leader", "log_replicas", "leader"),
        ("failure_log_lines", "1", "failure_log_lines", 1),
        ("log_streams", "20", "log_streams", 20),
        ("exec_plugin_env", " VAULT_ADDR, _X1,,", "exec_plugin_env", ("VAULT_ADDR", "_X1")),
        ("exec_plugin_env", "", "exec_plugin_env", ()),
        ("node_pool_label", "", "node_pool_label", None),
        ("node_pool_label", "cloud.google.com/gke-nodepool", "node_pool_label", "cloud.google.com/gke-nodepool"),
        ("git_image", "git:1", "git_image", "git:1"),
        ("s3_image", " rclone:1 ", "s3_image", "rclone:1"),
        ("presets_folder", "", "presets_folder", None),
        ("presets_folder", "/etc/presets", "presets_folder", Path("/etc/presets")),
        ("policies_folder", "/etc/policies", "policies_folder", Path("/etc/policies")),
        ("dashboard_url", "", "dashboard_url", ""),
        ("dashboard_url", " https://k8s/{namespace}/{name} ", "dashboard_url", "https://k8s/{namespace}/{name}"),
    ],
)
def test_a_setting(option, value, name, read, monkeypatch):
    monkeypatch.setenv(f"AIRFLOW__TRAINER__{option.upper()}", value)

    assert getattr(load_settings(), name) == read


@pytest.mark.parametrize(
    ("url", "deployment"),
    [
        (None, ""),
        ("", ""),
        ("https://Airflow.example/staging/", "airflow.example/staging"),
        ("http://airflow.example:8080", "airflow.example:8080"),
        ("http://10.0.0.4:8080", "10.0.0.4:8080"),
        ("http://localhost:8080", ""),
        ("http://LOCALHOST/airflow", ""),
        ("http://airflow.localhost:8080", ""),
        ("http://localhost.:8080", ""),
        ("http://127.0.1.1:8080", ""),
        ("http://0.0.0.0:8080", ""),
        ("http://[::1]:8080", ""),
        ("http://[::]:8080", ""),
    ],
)
def test_the_address_of_an_airflow_names_it_where_no_other_can_have_it(url, deployment, monkeypatch):
    if url is None:
        monkeypatch.delenv("AIRFLOW__API__BASE_URL", raising=False)
    else:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", url)
    assert load_settings().deployment == deployment

    monkeypatch.setenv("AIRFLOW__TRAINER__DEPLOYMENT", "staging")

    assert load_settings().deployment == "staging"


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("backend", "locl", "auto, local, trainer, training-operator, mpi-operator, native"),
        ("local_keep_days", "-1", "a number from 0 to 36500"),
        ("local_keep_days", "ever", "a number from 0 to 36500"),
        ("poll_interval", "0", "a number from 0.05 to 60"),
        ("poll_interval", "nan", "a number from 0.05 to 60"),
        ("poll_interval", "inf", "a number from 0.05 to 60"),
        ("worker_exit_seconds", "-1", "a number from 0 to 120"),
        ("log_replicas", "some", "all, leader, none"),
        ("failure_log_lines", "0", "a number from 1 to 1000"),
        ("log_streams", "0", "a number from 1 to 100000"),
        ("node_pool_label", "a b", "the key of a label, e.g. cloud.google.com/gke-nodepool; empty for none"),
    ],
)
def test_a_wrong_setting(option, value, allowed, monkeypatch):
    monkeypatch.setenv(f"AIRFLOW__TRAINER__{option.upper()}", value)

    with pytest.raises(SpecError) as caught:
        load_settings()

    problem = caught.value.problems[0]
    assert (problem.field, problem.value, problem.allowed) == (f"[trainer] {option}", value, allowed)


@pytest.mark.parametrize("name", ["A-B", "1X", "A B", "AIRFLOW__CORE__FERNET_KEY", "MY_FERNET_KEY"])
def test_a_variable_that_no_plugin_may_have(name, monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__EXEC_PLUGIN_ENV", f"VAULT_ADDR, {name}")

    with pytest.raises(SpecError, match="none of Airflow's own configuration") as caught:
        load_settings()

    assert caught.value.problems[0].value == name


def test_the_names_of_the_package():
    for name in airflow_trainer_provider.__all__:
        assert getattr(airflow_trainer_provider, name).__name__ == name
    with pytest.raises(AttributeError, match="NoSuchOperator"):
        _ = airflow_trainer_provider.NoSuchOperator


@pytest.mark.parametrize(
    "url",
    [
        "headlamp.example/{name}",
        "ftp://k8s.example/{name}",
        "javascript:alert({name})",
        "https://{pod}.example/",
        "https://k8s.example/{name!r}",
        "https://k8s.example/{name",
        "https://k8s.example/<name>",
        "https://user@k8s.example/{name}",
        "https:///{name}",
    ],
)
def test_an_address_that_is_no_dashboards(url, monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__DASHBOARD_URL", url)

    with pytest.raises(SpecError, match=r"\{namespace\}, \{kind\}, \{resource\}, \{name\}") as caught:
        load_settings()

    assert caught.value.problems[0].field == "[trainer] dashboard_url"
