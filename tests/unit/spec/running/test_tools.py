"""Validation of the tools of a job."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.spec import parse_spec
from tests.unit.kinds.specs import TOOLS

NAMES = "1 to 15 lowercase letters, digits and single '-'"
URL = "an http or https URL without user and password, of at most 2000 characters"


def _tool(**fields: Any) -> dict[str, Any]:
    return {"tb": {"port": 6006, **fields}}


def _parse(tools: Any) -> Any:
    return parse_spec({"framework": "jax", "image": "i", "command": ["python"], "tools": tools}).tools


@pytest.mark.parametrize(
    ("tools", "field", "value", "allowed", "fix"),
    [
        ("tensorboard", "", "str", "a mapping of names to tools", 'e.g. {"tensorboard": {"port": 6006}}'),
        ([{"name": "tb", "port": 6006}], "", "list", "a mapping of names to tools", "Write names and tools"),
        ("{'tb': {'port': 6006}}", "", "str", "a mapping of names to tools", "render_template_as_native_obj"),
        ({f"t{at}": {"port": 80} for at in range(11)}, "", "11 tools", "at most 10 tools", "Name those"),
        ({"TensorBoard": {"port": 6006}}, "", "TensorBoard", NAMES, "Rename it."),
        ({"tensorboard-2026": {"port": 6006}}, "", "tensorboard-2026", NAMES, "Rename it."),
        ({"1b": {"port": 6006}}, "", "1b", NAMES, "Rename it."),
        ({"t--b": {"port": 6006}}, "", "t--b", NAMES, "Rename it."),
        ({"tb": 6006}, "tb", 6006, "a mapping of its fields", "Change tools.tb."),
        ({"tb": {}}, "tb.port", None, "a value", "Set tools.tb.port."),
        (_tool(port=0), "tb.port", 0, "a number of at least 1", "Set tools.tb.port"),
        (_tool(port=65536), "tb.port", 65536, "a number of at most 65535", "Set tools.tb.port"),
        (_tool(port=True), "tb.port", True, "a whole number", "Write the number itself."),
        (_tool(access="nodeport"), "tb.access", "nodeport", "cluster, node_port, ingress, url", "Did you mean"),
        (_tool(access="node_port", node_port=8080), "tb.node_port", 8080, "a number of at least 30000", "Set"),
        (_tool(access="node_port", node_port=32768), "tb.node_port", 32768, "a number of at most 32767", "Set"),
        (_tool(node_port=30600), "tb.node_port", 30600, "no value, unless access is 'node_port'", "Drop node_port"),
        (_tool(host="a"), "tb.host", "a", "no value, unless access is 'node_port' or 'ingress'", "Drop host"),
        (_tool(url="https://a"), "tb.url", "https://a", "no value, unless access is 'url'", "Drop url"),
        (_tool(annotations={"a": "b"}), "tb.annotations", "a value", "unless access is 'ingress'", "Drop annotations"),
        (_tool(access="ingress"), "tb.host", None, "the name of a host beside access 'ingress'", "Set host."),
        (_tool(access="ingress", host="10.0.0.4"), "tb.host", "10.0.0.4", "a name: an Ingress takes no IP", "Write a"),
        (_tool(access="ingress", host="https://a"), "tb.host", "https://a", "the name of a host", "without scheme"),
        (_tool(access="ingress", host="{task}.a"), "tb.host", "{task}.a", "{job} and {namespace} stand for", "Write"),
        (_tool(access="node_port", host="a:80"), "tb.host", "a:80", "the name of a host", "without scheme and port"),
        (_tool(access="ingress", host="a", tls_secret="A"), "tb.tls_secret", "A", "1 to 253 lowercase", "Write the"),
        (_tool(path="lab"), "tb.path", "lab", "a path that begins with '/'", "Correct it"),
        (_tool(path="/a?token=x"), "tb.path", "/a?token=x", "without query", "Correct it"),
        (_tool(path="/a//b"), "tb.path", "/a//b", "without query, '//' and '..'", "Correct it"),
        (_tool(path="/a/../b"), "tb.path", "/a/../b", "without query, '//' and '..'", "Correct it"),
        (_tool(access="url"), "tb.url", None, "a URL beside access 'url'", "Set url."),
        (_tool(access="url", url="ftp://a"), "tb.url", "ftp://a", URL, "Correct it"),
        (_tool(access="url", url="javascript:alert(1)"), "tb.url", "javascript:alert(1)", URL, "Correct it"),
        (_tool(access="url", url="https://a/<port>"), "tb.url", "https://a/<port>", URL, "Correct it"),
        (
            _tool(access="url", url="https://a/?token=4f2c9a7be61d03aa"),
            "tb.url",
            "a URL with a secret",
            URL,
            "Drop the",
        ),
        (_tool(access="url", url="https://a b"), "tb.url", "https://a b", URL, "Correct it"),
        (_tool(access="url", url="https://a/{run}"), "tb.url", "https://a/{run}", "{job} and {namespace}", "Correct"),
        (_tool(access="url", url="https://ada:s3cret@a:99999999"), "tb.url", "a URL with '@'", URL, "Drop user and"),
        (_tool(access="url", url="https://a", path="/b"), "tb.path", "/b", "no value, unless access", "Drop path"),
        (
            _tool(access="ingress", host="{job}.{namespace}." + "a" * 126),
            "tb.host",
            "{job}.{namespace}." + "a" * 126,
            "the name of a host",
            "Write the host alone",
        ),
        (_tool(nodePort=30600), "tb.nodePort", "nodePort", "port, access, node_port", "Did you mean 'node_port'?"),
    ],
)
def test_what_is_wrong_is_named(tools, field, value, allowed, fix):
    with pytest.raises(SpecError) as caught:
        _parse(tools)

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"tools.{field}" if field else "tools", value)
    assert allowed in problem.allowed
    assert fix in problem.fix
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("tool", "field", "value"),
    [
        ({"access": "node_port", "node_port": 30600}, "node_port", 30600),
        ({"access": "ingress", "host": "tools.example", "path": "/a"}, "path", "/a"),
    ],
)
def test_two_tools_may_not_have_the_same_address(tool, field, value):
    with pytest.raises(SpecError) as caught:
        _parse({"tb": {"port": 6006, **tool}, "lab": {"port": 8888, **tool}})

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"tools.tb.{field}", value)
    assert "these have the same: tb, lab" in problem.allowed
    assert problem.fix == f"Give each another {field}."


def test_two_tools_may_have_one_port_or_one_host():
    tools = {
        "a": {"port": 80},
        "b": {"port": 80, "access": "node_port"},
        "c": {"port": 80, "access": "node_port"},
        "d": {"port": 80, "access": "ingress", "host": "tools.example"},
        "e": {"port": 80, "access": "ingress", "host": "tools.example", "path": "/e"},
    }

    assert [*_parse(tools)] == [*"abcde"]


def test_what_is_right_is_taken():
    tools = _parse(TOOLS)

    assert {name: tool.model_dump(exclude_defaults=True) for name, tool in tools.items()} == {
        name: {field: value for field, value in tool.items() if value != "cluster"} for name, tool in TOOLS.items()
    }


def test_numbers_that_a_template_has_rendered_are_numbers():
    assert _parse({"tb": {"port": "6006", "access": "node_port", "node_port": "30600"}})["tb"].node_port == 30600


def test_two_hosts_may_have_the_same_path():
    tools = {name: {"port": 80, "access": "ingress", "host": f"{name}.example"} for name in "ab"}

    assert [*_parse(tools)] == ["a", "b"]
