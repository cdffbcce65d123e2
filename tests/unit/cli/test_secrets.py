"""Each shape of a secret, in what the command line prints."""

from __future__ import annotations

import json

import pytest
import yaml

from airflow_trainer_provider.cli import main
from tests.fakes.jobs import add_job, add_pod, ours
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes
from tests.unit.text.secret_shapes import SHAPES

BASE = {"framework": "pytorch", "num_nodes": 2, "image": "train:1", "command": ["python", "t.py"]}


@pytest.fixture
def cluster():
    with FakeKubernetes().in_a_thread() as api:
        yield api


@pytest.fixture
def printed(cluster, tmp_path, capsys):
    """Function (words) -> exit code, and what was printed."""
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())

    def printed(command, *words):
        code = main([command, "--kubeconfig", str(tmp_path / "kubeconfig"), "--namespace", NAMESPACE, *words])
        output = capsys.readouterr()
        return code, output.out + output.err

    return printed


def _file(tmp_path, fields):
    file = tmp_path / "job.json"
    file.write_text(json.dumps({**BASE, **fields}, default=str))
    return str(file)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_rendered_job_and_the_error_of_a_wrong_one_show_no_secret(printed, tmp_path, shape):
    code, out = printed("render", _file(tmp_path, shape.fields), "--backend", "native")
    assert code == 0, out
    assert list(yaml.safe_load_all(out))
    assert shape.secret not in out

    # A field of the wrong kind is quoted.
    for fields in ({"num_nodes": shape.fields}, {"unknown": shape.fields}):
        code, out = printed("render", _file(tmp_path, fields), "--backend", "native")
        assert code == 2
        assert next(iter(fields)) in out
        assert shape.secret not in out


@pytest.mark.parametrize("shape", [each for each in SHAPES if "env" in each.fields], ids=str)
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_job_whose_components_quote_its_variables_is_described_without_secrets(printed, cluster, shape, output):
    env = [{"name": name, "value": str(value)} for name, value in shape.fields["env"].items()]
    quoted = "; ".join(f"cannot use {each['value']}" for each in env)
    condition = {"type": "Running", "status": "True", "reason": "Running", "message": quoted}
    add_job(cluster, "jaxjob", "j", metadata=ours("j"), status={"conditions": [condition]})
    add_pod(cluster, "j", state={"waiting": {"reason": "CreateContainerError", "message": quoted}}, env=env)

    for words in (("describe", "j"), ("list",)):
        code, out = printed(*words, *(("-o", "json") if output == "json" else ()))
        assert code == 0, out
        assert shape.secret not in out
