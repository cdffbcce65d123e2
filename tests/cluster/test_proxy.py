"""The proxy in front of the real API server: silent without rules, and each rule does what it says."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request

import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.proxy import FaultProxy


@pytest.fixture
def proxy(cluster):
    with FaultProxy(cluster.kubectl.kubeconfig) as proxy:
        yield proxy


def _get(proxy, path, timeout=90):
    with urllib.request.urlopen(proxy.url + path, timeout=timeout) as answer:
        return json.loads(answer.read())


def test_passes_everything_on(proxy, cluster, namespace, tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(proxy.kubeconfig)
    kubectl = Kubectl(cluster.kubectl.program, file)
    kubectl("create", "configmap", "made", f"--namespace={namespace}", "--from-literal=key=value")
    assert cluster.kubectl.get("configmap", "made", namespace)["data"] == {"key": "value"}


def test_streams_watches(proxy, cluster, namespace):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    # Without a version to begin at, the API server may ask etcd for the newest, which etcd 3.4 does not report.
    version = _get(proxy, path)["metadata"]["resourceVersion"]
    watch = urllib.request.urlopen(f"{proxy.url}{path}?watch=true&resourceVersion={version}", timeout=90)
    with watch:
        cluster.kubectl("create", "configmap", "seen", f"--namespace={namespace}")
        names = set()
        while "seen" not in names:
            names.add(json.loads(watch.readline())["object"]["metadata"]["name"])


@pytest.mark.parametrize("status", [429, 500, 410])
def test_answers_with_error(status, proxy):
    rule = proxy.answer(status, reason="Injected", path="^/api/v1/nodes", times=1, retry_after=1)
    with pytest.raises(urllib.error.HTTPError) as caught:
        _get(proxy, "/api/v1/nodes")
    with caught.value as error:
        assert error.code == status
        assert error.headers["Retry-After"] == "1"
        assert json.loads(error.read())["reason"] == "Injected"
    # Once was asked for.
    assert _get(proxy, "/api/v1/nodes")["kind"] == "NodeList"
    assert rule.hits == 1


def test_rules_choose_by_method_and_path(proxy):
    proxy.answer(500, method="POST")
    proxy.answer(500, path="^/apis/batch/")
    assert _get(proxy, "/api/v1/nodes")["kind"] == "NodeList"
    with pytest.raises(urllib.error.HTTPError):
        _get(proxy, "/apis/batch/v1/jobs")
    proxy.heal()
    assert _get(proxy, "/apis/batch/v1/jobs")["kind"] == "JobList"


def test_expires_watch(proxy):
    proxy.expire_watch()
    event = _get(proxy, "/api/v1/pods?watch=true&resourceVersion=1")
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize("after", [0, 100])
def test_cuts_connection(after, proxy):
    proxy.cut(path="^/api/v1/nodes", after=after)
    with pytest.raises((OSError, http.client.HTTPException)) as caught:
        _get(proxy, "/api/v1/nodes")
    assert not isinstance(caught.value, urllib.error.HTTPError)


def test_loses_answer_to_request_that_was_carried_out(proxy, cluster, namespace):
    proxy.lose_answer(method="POST", times=1)
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}).encode()
    headers = {"Content-Type": "application/json"}
    url = f"{proxy.url}/api/v1/namespaces/{namespace}/configmaps"
    with pytest.raises(ConnectionError):
        urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=90)
    assert cluster.kubectl.get("configmap", "made", namespace)


def test_a_request_is_delayed(proxy):
    proxy.delay(1.5, path="^/api/v1/nodes", times=1)
    started = time.monotonic()
    _get(proxy, "/api/v1/nodes")
    assert time.monotonic() - started >= 1.5
