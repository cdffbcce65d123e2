"""Where the tools of a job are reached, and in which replica they run."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.plan.tools import filled, is_whole, tool_replica, url_of, with_node
from airflow_trainer_provider.spec import Tool
from tests.unit.kinds.specs import job_of


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://service:6006/"),
        ({"path": "/{job}/"}, "http://service:6006/train-1/"),
        ({"access": "node_port"}, "http://<node>:<port>/"),
        ({"access": "node_port", "node_port": 30600}, "http://<node>:30600/"),
        ({"access": "node_port", "host": "10.0.0.4", "path": "/lab"}, "http://10.0.0.4:<port>/lab"),
        ({"access": "node_port", "host": "n", "node_port": 30600}, "http://n:30600/"),
        ({"access": "ingress", "host": "{job}.{namespace}.example"}, "http://train-1.team.example/"),
        ({"access": "ingress", "host": "a.example", "tls_secret": "s", "path": "/b"}, "https://a.example/b"),
        ({"access": "url", "url": "https://a.example/{namespace}/{job}?x=1"}, "https://a.example/team/train-1?x=1"),
    ],
)
def test_the_address_of_a_tool(fields, url):
    tool = filled(Tool(port=6006, **fields), "train-1", "team")

    assert url_of(tool, "service") == url
    assert is_whole(url) == ("<" not in url)


@pytest.mark.parametrize(("address", "host"), [("10.0.0.4", "10.0.0.4"), ("fd00::4", "[fd00::4]")])
def test_an_address_with_a_node(address, host):
    assert with_node("http://<node>:30600/", address) == f"http://{host}:30600/"


@pytest.mark.parametrize(
    ("framework", "replica"),
    [
        ("pytorch", "master-0"),
        ("tensorflow", "chief-0"),
        ("mpi", "worker-0"),
        ("xgboost", "master-0"),
        ("paddle", "worker-0"),
        ("jax", "worker-0"),
    ],
)
def test_tools_run_where_rank_0_trains(framework, replica):
    assert tool_replica(job_of(framework)).name == replica
