"""The tools of a job on this machine: at localhost, with no Service."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.spec import parse_spec

IDENTITY = Identity(dag_id="d", run_id="r", task_id="t")
NAME = IDENTITY.job_name()
TOOLS = {
    "tb": {"port": 6006, "path": "/{job}/"},
    "gate": {"port": 80, "access": "url", "url": "https://gate.example/{job}"},
}
URLS = {"tb": f"http://localhost:6006/{NAME}/", "gate": f"https://gate.example/{NAME}"}


def _job(tools, **fields):
    return plan_job(parse_spec({"framework": "jax", "command": ["true"], "tools": tools, **fields}))


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path, 0.05, None)


async def test_tools_are_at_localhost_also_for_the_try_that_adopts_the_job(backend):
    first = (await backend.submit(_job(TOOLS), IDENTITY)).handle
    again = (await backend.submit(_job(TOOLS), IDENTITY.model_copy(update={"try_number": 2}))).handle

    assert first.tools == again.tools == URLS
    assert again.uid == first.uid


def test_the_rendered_job_says_where_its_tools_are(backend):
    document = yaml.safe_load(backend.render(_job(TOOLS), IDENTITY))

    assert document["tools"] == URLS
    assert "tools" not in yaml.safe_load(backend.render(_job({}), IDENTITY))


@pytest.mark.parametrize(
    ("tool", "field", "value", "fix"),
    [
        ({"access": "node_port"}, "access", "node_port", "Drop access: the tool is at localhost:6006."),
        ({"access": "ingress", "host": "a.example"}, "access", "ingress", "Or use a cluster."),
        ({"path": "/{namespace}"}, "path", "/{namespace}", "Drop {namespace}"),
        ({"access": "url", "url": "https://a/{namespace}"}, "url", "https://a/{namespace}", "Drop {namespace}"),
    ],
)
def test_what_only_a_cluster_has_is_refused_by_name(backend, tool, field, value, fix):
    with pytest.raises(UnsupportedField) as caught:
        backend.check(_job({"tb": {"port": 6006, **tool}}))

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"tools.tb.{field}", value)
    assert fix in problem.fix
