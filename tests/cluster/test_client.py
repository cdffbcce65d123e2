"""The client against a real API server: what it refuses, how it is kept on talking to, and whom it knows."""

from __future__ import annotations

import contextlib
import json
import logging
import stat
import sys
import uuid
from pathlib import Path

import pytest
import yaml

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api import client as client_module
from airflow_trainer_provider.cluster.api import retry
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.operations.refusal import explain
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import CONFIG_MAPS, JOBS, PODS, SECRETS, Resource
from airflow_trainer_provider.text.printable import CUT, LONGEST_LINE_BYTES
from tests.cluster.node import wait_for
from tests.cluster.proxy import FaultProxy

PYTORCH_JOBS = Resource("kubeflow.org/v1", "PyTorchJob", "pytorchjobs")
NO_JOBS = Resource("kubeflow.org/v9", "PyTorchJob", "pytorchjobs")
IMAGE = "trainer.test/tiny:test"


@pytest.fixture
async def connect():
    """Function (kubeconfig, as text or file) -> client."""
    clients = []

    def connect(kubeconfig, outage_budget=60.0):
        fields = {"kube_config_path": str(kubeconfig)} if isinstance(kubeconfig, Path) else {"kube_config": kubeconfig}
        client = Client(ClusterConnection("test", **fields), outage_budget=outage_budget)
        clients.append(client)
        return client

    yield connect
    for client in clients:
        await client.close()


@pytest.fixture
def client(connect, cluster):
    return connect(Path(cluster.kubectl.kubeconfig))


@pytest.fixture
def proxy(cluster):
    with FaultProxy(Path(cluster.kubectl.kubeconfig)) as proxy:
        yield proxy


@pytest.fixture
def as_account(cluster, namespace):
    """Function (how it says who it is) -> kubeconfig of the namespace's service account ``worker``."""
    cluster.kubectl("create", "serviceaccount", "worker", "-n", namespace)

    def as_account(**user):
        config = yaml.safe_load(Path(cluster.kubectl.kubeconfig).read_text())
        config["users"][0]["user"] = user
        return json.dumps(config)

    return as_account


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pytorch_job(name="job", container="pytorch", **spec):
    pod = {"containers": [{"name": container, "image": IMAGE, "command": ["true"]}], "restartPolicy": "Never"}
    replicas = {"Worker": {"replicas": 1, "template": {"spec": {"containers": pod["containers"]}}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": replicas, **spec},
    }


def pod(name, *command, **resources):
    container = {"name": "main", "image": IMAGE, "command": list(command), "resources": resources}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def refused(call, resource, namespace):
    with pytest.raises(ApiError) as caught:
        await call
    return explain(caught.value, resource, namespace)


async def test_a_job_is_made_read_changed_and_deleted(client, namespace):
    assert (await client.create(PYTORCH_JOBS, namespace, pytorch_job(), dry_run=True))["metadata"]["name"] == "job"
    assert (await client.list(PYTORCH_JOBS, namespace)).items == []

    made = await client.create(PYTORCH_JOBS, namespace, pytorch_job())
    found = await client.get(PYTORCH_JOBS, namespace, "job")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]

    patch = {"metadata": {"annotations": {"a": "b"}}}
    changed = await client.patch(PYTORCH_JOBS, namespace, "job", patch)
    assert changed["metadata"]["annotations"]["a"] == "b"
    patch["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    patch["metadata"]["annotations"]["a"] = "c"
    found = await refused(client.patch(PYTORCH_JOBS, namespace, "job", patch), PYTORCH_JOBS, namespace)
    assert (found.reason, found.retryable) == ("Conflict", True)

    assert await client.delete(PYTORCH_JOBS, namespace, "job", uid=str(uuid.uuid4())) is False
    assert await client.delete(PYTORCH_JOBS, namespace, "job", uid=made["metadata"]["uid"]) is True
    assert await client.delete(PYTORCH_JOBS, namespace, "none") is False


async def test_refusals_are_distinguished(client, namespace, cluster):
    def create(manifest, resource=PYTORCH_JOBS, where=namespace):
        return refused(client.create(resource, where, manifest), resource, where)

    found = await create(pytorch_job(bad=1))
    assert (found.reason, "spec.bad" in found.text) == ("UnknownField", True)

    found = await create(pytorch_job(container="main"))
    assert (found.reason, "with name pytorch" in found.text) == ("DeniedByWebhook", True)

    found = await create(config_map("Not_a_name"), resource=CONFIG_MAPS)
    assert (found.reason, "metadata.name" in found.text) == ("Invalid", True)

    found = await create(pytorch_job(), where="nowhere-at-all")
    assert found.reason == "NamespaceMissing"

    found = await create(pytorch_job(), resource=NO_JOBS)
    assert (found.reason, "pytorchjobs.kubeflow.org" in found.text) == ("CrdMissing", True)

    await client.create(CONFIG_MAPS, namespace, config_map("taken"))
    found = await create(config_map("taken"), resource=CONFIG_MAPS)
    assert found.reason == "AlreadyExists"
    found = await refused(client.get(CONFIG_MAPS, namespace, "none"), CONFIG_MAPS, namespace)
    assert found.reason == "NotFound"

    cluster.kubectl("create", "quota", "little", "--hard=pods=0", "-n", namespace)
    cluster.kubectl("wait", "--for=jsonpath={.status.hard.pods}=0", "quota/little", "-n", namespace, "--timeout=170s")
    found = await create(pod("p", "true"), resource=PODS)
    assert (found.reason, found.retryable, "little" in found.text) == ("QuotaExceeded", True, True)


async def test_what_the_cluster_does_not_store_is_too_large(client, namespace):
    def with_variables(manifest, count, length):
        template = manifest["spec"].get("template") or manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        template["spec"]["containers"][0]["env"] = [{"name": f"E{at}", "value": "x" * length} for at in range(count)]
        return manifest

    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    job["spec"] = {"suspend": True, "template": {"spec": pod("p", "true")["spec"]}}
    for resource, manifest in (
        (JOBS, with_variables(job, 10_000, 110)),
        (PYTORCH_JOBS, with_variables(pytorch_job(), 1000, 1600)),
        (PYTORCH_JOBS, with_variables(pytorch_job(), 1000, 2500)),
        (PYTORCH_JOBS, with_variables(pytorch_job(), 1000, 4000)),
    ):
        found = await refused(client.create(resource, namespace, manifest), resource, namespace)
        assert (found.reason, found.retryable) == ("TooLarge", False)
        assert f"of {len(json.dumps(manifest))} bytes as JSON" in found.text


async def test_a_policy_that_denies_an_object_is_named(client, namespace, cluster):
    version, name = "admissionregistration.k8s.io/v1", f"no-maps-{namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    policy = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
        "validations": [{"expression": "object.metadata.name != 'denied'", "message": "no maps here"}],
    }
    for kind, spec in (
        ("ValidatingAdmissionPolicy", policy),
        ("ValidatingAdmissionPolicyBinding", {"policyName": name, "validationActions": ["Deny"]}),
    ):
        cluster.kubectl.apply([{"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}])
    probe = ("create", "configmap", "denied", "--dry-run=server", f"--namespace={namespace}")
    wait_for(lambda: not cluster.kubectl.ok(*probe), "the refusal", seconds=60)
    try:
        found = await refused(client.create(CONFIG_MAPS, namespace, config_map("denied")), CONFIG_MAPS, namespace)
    finally:
        cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)

    assert (found.reason, found.retryable) == ("DeniedByPolicy", False)
    assert f"ValidatingAdmissionPolicy {name}" in found.text
    assert "no maps here" in found.text


async def test_a_namespace_that_is_being_deleted_is_reported(client, cluster):
    name = f"trainer-test-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    held = config_map("held")
    held["metadata"]["finalizers"] = ["trainer.test/hold"]
    await client.create(CONFIG_MAPS, name, held)
    try:
        cluster.kubectl("delete", "namespace", name, "--wait=false")
        found = await refused(client.create(CONFIG_MAPS, name, config_map("late")), CONFIG_MAPS, name)
        assert found.reason == "NamespaceTerminating"
    finally:
        await client.patch(CONFIG_MAPS, name, "held", {"metadata": {"finalizers": None}})


async def test_missing_rights_name_who_may_not_do_what(connect, cluster, namespace, as_account):
    token = cluster.kubectl("create", "token", "worker", "-n", namespace).strip()
    client = connect(as_account(token=token))

    found = await refused(client.create(PYTORCH_JOBS, namespace, pytorch_job()), PYTORCH_JOBS, namespace)

    assert found.reason == "NoPermission"
    assert f"system:serviceaccount:{namespace}:worker may not create pytorchjobs" in found.text
    assert token not in found.text


async def test_an_unknown_user_is_reported_as_such(connect, namespace, as_account):
    found = await refused(connect(as_account(token="forged")).get(PODS, namespace, "p"), PODS, namespace)

    assert found.reason == "Unauthorized"
    assert "forged" not in found.text


async def test_lists_page_by_page(client, namespace, monkeypatch):
    monkeypatch.setattr(client_module, "_PAGE", 2)
    for name in "abcde":
        await client.create(CONFIG_MAPS, namespace, config_map(name))

    listing = await client.list(CONFIG_MAPS, namespace, field_selector="metadata.name!=kube-root-ca.crt")

    assert [item["metadata"]["name"] for item in listing.items] == list("abcde")
    assert {item["kind"] for item in listing.items} == {"ConfigMap"}


async def test_a_list_whose_pages_expire_starts_over(connect, proxy, namespace, monkeypatch):
    monkeypatch.setattr(client_module, "_PAGE", 2)
    client = connect(proxy.kubeconfig)
    for name in "abc":
        await client.create(CONFIG_MAPS, namespace, config_map(name))
    expired = proxy.answer(410, reason="Expired", path="continue=", times=1)

    listing = await client.list(CONFIG_MAPS, namespace, field_selector="metadata.name!=kube-root-ca.crt")

    assert expired.hits == 1
    assert [item["metadata"]["name"] for item in listing.items] == list("abc")


async def test_watches_from_a_list_on(client, namespace):
    listing = await client.list(CONFIG_MAPS, namespace)
    watch = client.watch(CONFIG_MAPS, namespace, resource_version=listing.resource_version)
    async with contextlib.aclosing(watch):
        await client.create(CONFIG_MAPS, namespace, config_map("a"))
        await client.delete(CONFIG_MAPS, namespace, "a")
        seen = []
        while [type for type, _ in seen if type == "DELETED"] == []:
            event = await anext(watch)
            if event.object["metadata"]["name"] == "a":
                seen.append((event.type, event.object["kind"]))

    assert seen == [("ADDED", "ConfigMap"), ("DELETED", "ConfigMap")]


async def test_a_watch_ends_by_itself_when_its_time_is_up(client, namespace, monkeypatch):
    monkeypatch.setattr(client_module, "_WATCH", 2)
    # Every namespace gets a ConfigMap, a moment after it was made.
    ours = "app=ours"
    listing = await client.list(CONFIG_MAPS, namespace, label_selector=ours)

    watch = client.watch(CONFIG_MAPS, namespace, label_selector=ours, resource_version=listing.resource_version)

    assert [event async for event in watch if event.type != "BOOKMARK"] == []


async def test_a_watch_that_starts_too_long_ago_says_so(connect, proxy, namespace):
    proxy.expire_watch()
    with pytest.raises(ApiError) as caught:
        await anext(connect(proxy.kubeconfig).watch(PODS, namespace, resource_version="1"))

    assert (caught.value.status, caught.value.reason) == (410, "Expired")


async def test_follows_the_log_of_a_pod(client, namespace, cluster):
    script = (
        "echo first; yes | tr -d '\\n' | head -c 3000000; echo; until [ -e /tmp/go ]; do sleep 0.1; done; echo last"
    )
    await client.create(PODS, namespace, pod("p", "sh", "-c", script, requests={"cpu": "20m"}))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/p", "-n", namespace, "--timeout=170s")

    lines = []
    async with contextlib.aclosing(client.logs(namespace, "p", "main", follow=True)) as log:
        async for line in log:
            lines.append(line)
            if b" yyy" in line:
                cluster.kubectl("exec", "p", "-n", namespace, "--", "touch", "/tmp/go")

    words = [line.split(b" ", 1)[1] for line in lines]
    assert (words[0], words[-1]) == (b"first", b"last")
    # Much more than can be shown of a line is not read.
    assert len(lines[1]) == LONGEST_LINE_BYTES + len(CUT)
    assert words[1].strip(b"y") == CUT.encode()

    last = [line async for line in client.logs(namespace, "p", "main", tail_lines=1)]
    assert last == lines[-1:]
    since = lines[-1].split(b" ")[0].decode()
    assert lines[-1] in [line async for line in client.logs(namespace, "p", "main", since_time=since)]
    found = await refused(anext(client.logs(namespace, "p", "main", previous=True)), PODS, namespace)
    assert "previous terminated container" in found.text


async def test_gets_through_an_outage(connect, proxy, namespace, monkeypatch, caplog):
    monkeypatch.setattr(retry, "_SHORTEST", 0.01)
    caplog.set_level(logging.INFO)
    client = connect(proxy.kubeconfig)
    faults = [
        proxy.answer(429, reason="TooManyRequests", path="/configmaps", times=1, retry_after=1),
        proxy.answer(503, reason="ServiceUnavailable", path="/configmaps", times=1),
        proxy.cut(path="/configmaps", times=2),
        proxy.cut(path="/configmaps", times=1, after=20),
    ]

    assert (await client.list(CONFIG_MAPS, namespace)).items

    assert [fault.hits for fault in faults] == [1, 1, 2, 1]
    assert [record.levelname for record in caplog.records if record.name == retry.__name__] == ["WARNING", "INFO"]


async def test_a_create_whose_answer_is_lost_is_not_sent_again(connect, proxy, namespace):
    client = connect(proxy.kubeconfig)
    lost = proxy.lose_answer(method="POST", path="/configmaps")
    with pytest.raises(ApiError) as caught:
        await client.create(CONFIG_MAPS, namespace, config_map("a"))

    assert caught.value.status is None
    assert lost.hits == 1
    assert (await client.get(CONFIG_MAPS, namespace, "a"))["metadata"]["name"] == "a"


@pytest.fixture
def plugin(tmp_path, cluster, namespace, as_account):
    """A credential plugin that asks the API server for a token of ``worker``, bound to a Secret; it notes its runs.

    The token is worth nothing once its Secret is gone.
    """
    cluster.kubectl(
        "create", "rolebinding", "worker", "--clusterrole=view", f"--serviceaccount={namespace}:worker", "-n", namespace
    )
    script, bound, runs = tmp_path / "plugin", tmp_path / "secret", tmp_path / "runs"
    command = [str(cluster.kubectl.program), f"--kubeconfig={cluster.kubectl.kubeconfig}", "create", "token", "worker"]
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, subprocess\n"
        f"secret = open({str(bound)!r}).read()\n"
        f"bind = ['-n', {namespace!r}, '-o', 'json', '--bound-object-kind=Secret', '--bound-object-name=' + secret]\n"
        f"asked = json.loads(subprocess.run({command!r} + bind, check=True, capture_output=True).stdout)\n"
        f"open({str(runs)!r}, 'a').write(secret + ' ')\n"
        "status = {key: asked['status'][key] for key in ('token', 'expirationTimestamp')}\n"
        "version = 'client.authentication.k8s.io/v1'\n"
        "print(json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status}))\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    class Plugin:
        kubeconfig = as_account(exec={"command": str(script), "apiVersion": "client.authentication.k8s.io/v1"})

        def bind(self, name):
            cluster.kubectl("create", "secret", "generic", name, "-n", namespace)
            bound.write_text(name)

        @property
        def runs(self):
            return runs.read_text().split()

    return Plugin()


async def test_a_token_that_the_api_server_no_longer_takes_is_renewed(connect, client, plugin, namespace):
    plugin.bind("one")
    worker = connect(plugin.kubeconfig)
    await worker.list(PODS, namespace)
    await worker.list(PODS, namespace)
    assert plugin.runs == ["one"]

    plugin.bind("two")
    await client.delete(SECRETS, namespace, "one")
    # The API server remembers for some seconds whom it knew.
    while plugin.runs == ["one"]:
        await worker.list(PODS, namespace)

    assert plugin.runs == ["one", "two"]
    await worker.list(PODS, namespace)


async def test_no_token_reaches_a_log(connect, cluster, namespace, as_account, caplog):
    caplog.set_level(logging.DEBUG)
    token = cluster.kubectl("create", "token", "worker", "-n", namespace).strip()
    client = connect(as_account(token=token))
    with pytest.raises(ApiError):
        await client.get(SECRETS, namespace, "s")

    assert token not in caplog.text
