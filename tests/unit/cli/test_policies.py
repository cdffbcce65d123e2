"""``policies export``, and the policies that hold for ``submit`` and ``render``."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from airflow_trainer_provider.cli import main
from airflow_trainer_provider.kinds.trainer.training_runtime import TRAINING_RUNTIMES
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

POLICY = """
applies_to: {namespaces: [team-a]}
rules:
  - {field: num_nodes, max: 4, default: 2, reason: Larger jobs need a reservation.}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "one.yaml").write_text(POLICY)
    monkeypatch.setenv("AIRFLOW__TRAINER__POLICIES_FOLDER", str(tmp_path))
    return tmp_path


def test_policies_are_exported(capsys):
    assert main(["policies", "export"]) == 0

    printed = capsys.readouterr()
    kinds = [each["kind"] for each in yaml.safe_load_all(printed.out)]
    assert kinds == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] * 10
    assert "not exported: num_nodes: default 2" in printed.err
    assert printed.out.startswith("# not exported: num_nodes: default 2")


def test_only_those_of_a_namespace_are_exported(capsys):
    assert main(["policies", "export", "-n", "other"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("namespace", ["A_b", ""])
def test_a_namespace_is_validated(namespace, capsys):
    assert main(["policies", "export", "--namespace", namespace]) == (2 if namespace else 0)


def test_a_wrong_policy_is_an_error(folder, capsys):
    (folder / "two.yaml").write_text("rules: []")

    assert main(["policies", "export"]) == 2
    assert f"{folder / 'two.yaml'}: rules" in capsys.readouterr().err


def test_without_a_folder_there_is_nothing_to_export(monkeypatch, capsys):
    monkeypatch.setenv("AIRFLOW__TRAINER__POLICIES_FOLDER", "")

    assert main(["policies", "export"]) == 2
    assert "[trainer] policies_folder" in capsys.readouterr().err


def _job(folder, **fields):
    file = folder / "job.json"
    file.write_text(yaml.safe_dump({"framework": "jax", "image": "i", "command": ["true"], **fields}))
    return str(file)


MANIFEST = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "JAXJob",
    "spec": {"jaxReplicaSpecs": {"Worker": {"replicas": 5, "template": {"spec": {"containers": [{"name": "jax"}]}}}}},
}


@pytest.mark.parametrize("command", ["submit", "render"])
@pytest.mark.parametrize("fields", [{"num_nodes": 5}, {"manifest": MANIFEST, **dict.fromkeys(("image", "command"))}])
def test_a_job_that_a_policy_does_not_allow_is_refused(command, fields, folder, capsys):
    job = _job(folder, **fields)

    assert main([command, job, "--backend", "training-operator", "-n", "team-a", "--kubeconfig", "missing"]) == 2

    err = capsys.readouterr().err
    assert f"got 5; allowed: at most 4. Reason: Larger jobs need a reservation. (policy {folder / 'one.yaml'})" in err


@pytest.mark.parametrize(
    ("words", "fields"), [(["training-operator", "-n", "team-b"], {}), (["local", "-n", "team-a"], {"image": None})]
)
def test_a_policy_of_another_namespace_is_not_for_it(words, fields, folder):
    assert main(["render", _job(folder, num_nodes=5, **fields), "--backend", *words]) == 0


@pytest.mark.parametrize("applies_to", [{"tags": ["*"]}, {"dags": ["nightly"]}])
def test_a_policy_that_is_chosen_by_the_dag_is_not_for_a_job_without_one(applies_to, folder, capsys):
    (folder / "one.yaml").write_text(yaml.safe_dump({**yaml.safe_load(POLICY), "applies_to": applies_to}))

    assert main(["render", _job(folder, num_nodes=5), "--backend", "native", "-n", "team-a"]) == 0


def test_what_policies_fill_in_is_part_of_the_job(folder, capsys):
    assert main(["render", _job(folder), "--backend", "training-operator", "-n", "team-a"]) == 0

    (job,) = yaml.safe_load_all(capsys.readouterr().out)
    assert job["spec"]["jaxReplicaSpecs"]["Worker"]["replicas"] == 2


@pytest.mark.parametrize(("option", "code"), [("policies_folder = $FOLDER", 2), ("", 0)])
def test_the_folder_may_stand_in_airflows_configuration(option, code, folder, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "airflow.cfg").write_text(f"[trainer]\n{option}\n")
    command = [sys.executable, "-m", "airflow_trainer_provider", "render", _job(folder, num_nodes=5)]
    env = {"AIRFLOW_HOME": str(home), "FOLDER": str(folder), "PATH": "/usr/bin:/bin"}

    done = subprocess.run(
        [*command, "--backend=native", "-n=team-a"], env=env, capture_output=True, text=True, check=False, timeout=180
    )

    assert (done.returncode, "at most 4" in done.stderr) == (code, code == 2)


def test_a_job_is_refused_for_what_its_runtime_adds(folder, tmp_path, capsys):
    (folder / "one.yaml").write_text("rules: [{field: num_nodes, max: 4, reason: Larger jobs need a reservation.}]")
    job = _job(folder, runtime_ref="TrainingRuntime/mine")
    kubeconfig = tmp_path / "kubeconfig"
    steps = {"spec": {"replicatedJobs": [{"name": "node", "template": {}}]}}
    with FakeKubernetes().in_a_thread() as api:
        kubeconfig.write_text(api.kubeconfig())
        api.add(TRAINING_RUNTIMES, "mine", spec={"mlPolicy": {"numNodes": 5}, "template": steps})

        code = main(["submit", job, "--backend", "trainer", "-n", NAMESPACE, "--kubeconfig", str(kubeconfig)])

        assert (code, api.names("trainjobs")) == (2, [])
    assert "num_nodes (of runtime_ref TrainingRuntime/mine): got 5; allowed: at most 4." in capsys.readouterr().err
