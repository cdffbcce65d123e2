"""Logs from the real kubelet: each line once, whatever breaks."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import pytest

from airflow_trainer_provider.cluster.access.connection import ClusterConnection
from airflow_trainer_provider.cluster.api.client import Client
from airflow_trainer_provider.cluster.informer.watch import Watches, by_label
from airflow_trainer_provider.cluster.logs.cursor import LogCursor
from airflow_trainer_provider.cluster.logs.job_logs import Logs, lines_of, tail
from airflow_trainer_provider.cluster.logs.streams import LogStreams
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.objects.pod import default_container
from airflow_trainer_provider.timeouts import with_timeout
from tests.cluster.proxy import FaultProxy

LOG = "/log\\?"
IMAGE = "trainer.test/tiny:test"


def container(script, name="main"):
    resources = {"requests": {"cpu": "20m"}}
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], "resources": resources}


def pod(name, script, *, init=(), sidecars=(), restart="Never"):
    mounts = [{"name": "state", "mountPath": "/state"}]
    main = container(script)
    main["volumeMounts"] = mounts
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"job": "logged"}},
        "spec": {
            "restartPolicy": restart,
            # Enough for the last lines of one that is deleted; the others end by themselves.
            "terminationGracePeriodSeconds": 30,
            "initContainers": list(init),
            "containers": [main, *sidecars],
            "volumes": [{"name": "state", "emptyDir": {}}],
        },
    }


class Job:
    """Some pods, and what is read of them."""

    def __init__(self, client, namespace, pods, *, replica_of=lambda pod: pod["metadata"]["name"], **options):
        self.client, self.namespace, self.pods = client, namespace, pods
        self.replica_of = replica_of
        self.cursor = LogCursor()
        self.options = options
        self.ended = asyncio.Event()

    def source(self):
        cursor = LogCursor(self.cursor.text())
        logs = Logs(self.client, self.pods, self.replica_of, default_container, cursor, **self.options)
        self.cursor = logs._cursor
        return lines_of(logs.blocks(self.ended))

    async def lines(self):
        """All lines up to the end of the pods."""
        watching = asyncio.create_task(self.watch())
        try:
            async with aclosing(self.source()) as source:
                return [(line.replica, line.text) async for line in source]
        finally:
            watching.cancel()

    async def watch(self):
        while not self.ended.is_set():
            pods = [*self.pods.objects.values(), *self.pods.gone.values()]
            if pods and all(each["status"].get("phase") in ("Succeeded", "Failed") for each in pods):
                self.ended.set()
            await asyncio.sleep(0.2)


@asynccontextmanager
async def job(kubeconfig, namespace, *pods, **options):
    client = Client(ClusterConnection("test", kube_config=kubeconfig))
    watches = Watches(client)
    try:
        async with AsyncExitStack() as stack:
            watch = watches.of(PODS, namespace, "job", by_label("job"))
            subscription = stack.enter_context(watch.subscribe("logged"))
            for each in pods:
                await client.create(PODS, namespace, each)
            yield Job(client, namespace, subscription, **options)
    finally:
        await watches.close()
        await client.close()


@pytest.fixture
def kubeconfig(cluster):
    return cluster.kubectl.kubeconfig.read_text()


COUNT = "i=0; while [ $i -lt {} ]; do echo line $i; i=$((i+1)); done"
SLOWLY = "i=0; while [ $i -lt {} ]; do echo line $i; i=$((i+1)); [ $((i % 20)) = 0 ] && sleep 0.1; done; true"


def numbered(count):
    return [f"line {number}" for number in range(count)]


async def test_a_writer_at_speed(kubeconfig, namespace):
    async with job(kubeconfig, namespace, pod("fast", COUNT.format(50_000))) as running:
        got = await with_timeout(running.lines(), 360)
    assert [text for _, text in got] == numbered(50_000)


@pytest.mark.no_second_chance
async def test_each_line_once_while_connections_are_cut(cluster, namespace):
    with FaultProxy(cluster.kubectl.kubeconfig) as proxy:
        cuts = [proxy.cut(path=LOG, times=1, after=size) for size in (1, 5_000, 9_000, 70, 12_000, 20_000)]
        cuts += [proxy.answer(500, path=LOG, times=1), proxy.cut(path=LOG, times=2)]
        async with job(proxy.kubeconfig, namespace, pod("slow", SLOWLY.format(2000))) as running:
            got = await with_timeout(running.lines(), 360)
        assert all(cut.hits for cut in cuts)
    assert [text for _, text in got] == numbered(2000)


@pytest.mark.no_second_chance
async def test_a_reader_takes_over(kubeconfig, namespace):
    got = []
    async with job(kubeconfig, namespace, pod("slow", SLOWLY.format(1000))) as running:
        for take in (150, 1, 333):
            async with aclosing(running.source()) as source:
                for _ in range(take):
                    got.append((await with_timeout(anext(source), 180)).text)
        got += [text for _, text in await with_timeout(running.lines(), 360)]
    assert got == numbered(1000)


#: Fails in its first two runs.
CRASHING = (
    "echo x >> /state/runs; run=$(wc -l < /state/runs); i=0; "
    "while [ $i -lt 100 ]; do echo run $run line $i; i=$((i+1)); done; {}; [ $run -ge 3 ]"
)


def lines_of_runs(*runs):
    return [f"run {run} line {i}" for run in runs for i in range(100)]


async def test_a_container_that_is_started_again(kubeconfig, namespace):
    script = CRASHING.format("sleep 5")
    async with job(kubeconfig, namespace, pod("crashing", script, restart="OnFailure")) as running:
        got = await with_timeout(running.lines(), 360)
    assert [text for _, text in got] == lines_of_runs(1, 2, 3)


async def test_while_a_container_waits_to_be_started_again_the_run_before_its_last_one_is_named_as_lost(
    kubeconfig, namespace
):
    crashing = pod("crashing", CRASHING.format("true"), restart="OnFailure")
    async with job(kubeconfig, namespace, crashing) as running:
        while not any(map(_waits_after_two_runs, running.pods.objects.values())):
            await with_timeout(running.pods.changed(), 60)
        got = [text for _, text in await with_timeout(running.lines(), 360)]
    assert got[0].endswith("lines of its run 1 are lost, as the kubelet gives no log of them")
    assert got[1:] == lines_of_runs(2, 3)


def _waits_after_two_runs(pod):
    (status,) = pod.get("status", {}).get("containerStatuses") or [{}]
    return status.get("restartCount") == 1 and "waiting" in status["state"]


async def test_init_containers_sidecars_and_several_writers(kubeconfig, namespace):
    beside = {"init": [container("echo looking", "init-pytorch")], "sidecars": [container("echo shipped", "shipper")]}
    pods = [pod(f"w-{n}", SLOWLY.format(200), **beside) for n in range(3)]
    async with job(kubeconfig, namespace, *pods) as running:
        got = await with_timeout(running.lines(), 360)
    for number in range(3):
        assert [text for name, text in got if name == f"w-{number}"] == numbered(200)
        assert [text for name, text in got if name == f"w-{number}/init-pytorch"] == ["looking"]
        assert [text for name, text in got if name == f"w-{number}/shipper"] == ["shipped"]


async def test_more_containers_than_may_be_read_at_once_take_turns(kubeconfig, namespace, monkeypatch):
    open_streams, most = 0, 0
    log_blocks = Client.log_blocks

    async def counted(*args, **options):
        nonlocal open_streams, most
        open_streams += 1
        most = max(most, open_streams)
        try:
            async with aclosing(log_blocks(*args, **options)) as blocks:
                async for block in blocks:
                    yield block
        finally:
            open_streams -= 1

    monkeypatch.setattr(LogStreams, "limit", 2)
    monkeypatch.setattr(Client, "log_blocks", counted)
    pods = [pod(f"w-{n}", SLOWLY.format(200)) for n in range(4)]
    async with job(kubeconfig, namespace, *pods) as running:
        got = await with_timeout(running.lines(), 360)
    assert most == 2
    for number in range(4):
        assert [text for name, text in got if name == f"w-{number}"] == numbered(200)


async def test_containers_whose_logs_are_refused_do_not_make_each_other_look_at_their_pod(cluster, namespace):
    with FaultProxy(cluster.kubectl.kubeconfig) as proxy:
        refused, looked = proxy.answer(500, path=LOG), proxy.delay(0, path="/pods/slow")
        slow = pod("slow", SLOWLY.format(3000), sidecars=[container("echo shipped; sleep 10", "shipper")])
        async with job(proxy.kubeconfig, namespace, slow) as running:
            reading = asyncio.ensure_future(with_timeout(running.lines(), 360))
            # Ten seconds from the first refusals on.
            for _ in range(1200):
                await asyncio.sleep(0.1)
                if refused.hits >= 2:
                    break
            await asyncio.sleep(10)
            requests = refused.hits + looked.hits
            proxy.heal()
            got = await reading
    # Each container asks after pauses of 0.5 s and more, and looks once in between.
    assert requests < 40
    assert [text for name, text in got if name == "slow"] == numbered(3000)
    assert [text for name, text in got if name == "slow/shipper"] == ["shipped"]


async def test_of_a_container_that_writes_too_much_the_first_10_mib_and_the_last_lines_are_shown(kubeconfig, namespace):
    filler = "x" * 1000
    count = 12_000
    script = f"i=0; while [ $i -lt {count} ]; do echo line $i {filler}; i=$((i+1)); done"
    async with job(kubeconfig, namespace, pod("loud", script)) as running:
        got = [text.removesuffix(f" {filler}") for _, text in await with_timeout(running.lines(), 360)]
    reached, cut = [text for text in got if text.startswith("... ")]
    first, last = got[: got.index(reached)], got[got.index(cut) + 1 :]
    assert got == [*first, reached, cut, *last]
    assert first == numbered(len(first))
    assert 0.99 * 10 * 2**20 < sum(len(f"{text} {filler}\n") for text in first) <= 10 * 2**20
    assert last == numbered(count)[-len(last) :]
    assert reached == "... this log has reached 10485760 bytes; only its end will follow, at the end"
    assert cut.startswith(f"... {count - len(first) - len(last)} lines (")
    assert cut.endswith(" bytes) were cut here")


async def test_a_pod_that_is_deleted_meanwhile(kubeconfig, namespace):
    script = "trap 'echo ended; exit 1' TERM; echo begun; while true; do sleep 0.1; done"
    async with job(kubeconfig, namespace, pod("deleted", script)) as running:
        got = []
        async with aclosing(running.source()) as source:
            async for line in source:
                got.append(line.text)
                if line.text == "begun":
                    await running.client.delete(PODS, namespace, "deleted")
                if line.text == "ended":
                    running.ended.set()
    assert got == ["begun", "ended"]


async def test_long_lines_and_progress_bars(kubeconfig, namespace):
    script = "printf '10%%\\r20%%\\r30%%\\n'; head -c 30000 /dev/zero | tr '\\0' x; echo; printf 'no line end'"
    async with job(kubeconfig, namespace, pod("odd", script)) as running:
        got = await with_timeout(running.lines(), 180)
        assert await tail(running.client, namespace, "odd", "main", 1) == ["no line end"]
    assert [text for _, text in got] == ["30%", "x" * 30_000, "no line end"]


async def test_a_log_that_the_kubelet_rotates(kubeconfig, namespace):
    """The kubelet starts a new file at 10 MiB; it looks every ten seconds."""
    filler = "x" * 400
    rest = "i=$((i+1)); [ $((i % 200)) = 0 ] && sleep 0.1"
    script = f"i=0; while [ $i -lt 60000 ]; do echo line $i {filler}; {rest}; done; true"
    async with job(kubeconfig, namespace, pod("long", script), limit_bytes=2**30) as running:
        got = await with_timeout(running.lines(), 540)
        left = await tail(running.client, namespace, "long", "main", 60_000)
    assert len(left) < 60_000
    assert [text.removesuffix(f" {filler}") for _, text in got] == numbered(60_000)


@pytest.fixture
def silent_node(cluster, namespace):
    """A node whose kubelet takes connections and answers none, as one that was stopped. Another pod stands for it."""
    kubectl, name = cluster.kubectl, f"silent-{namespace}"
    kubelet = {**pod("kubelet", "sleep 3600 | nc -l -p 10250"), "metadata": {"name": "kubelet"}}
    kubectl.apply([kubelet], "-n", namespace)
    kubectl.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}])
    kubectl("wait", "pod/kubelet", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
    address = kubectl.get("pod", "kubelet", namespace)["status"]["podIP"]
    endpoints = {"kubeletEndpoint": {"Port": 10250}}
    status = {"addresses": [{"type": "InternalIP", "address": address}], "daemonEndpoints": endpoints}
    kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    yield name
    kubectl("delete", "node", name, "--wait=false")


TRACEBACK = "echo Traceback; i=0; while [ $i -lt 50 ]; do echo frame $i; i=$((i+1)); done; echo ValueError: nan; exit 1"


async def test_the_second_attempts_log_is_there_where_the_first_ones_node_is_silent(
    cluster, kubeconfig, namespace, silent_node
):
    """A job that was restarted once is looked at after its end: both pods are there at once."""
    first, second = pod("first", "true"), pod("second", TRACEBACK)
    first["spec"]["nodeName"] = silent_node
    ended = {"exitCode": 1, "reason": "Error", "containerID": "containerd://gone", "finishedAt": "2026-01-01T00:00:00Z"}
    of_main = {"name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
    of_first = {"phase": "Failed", "containerStatuses": [{**of_main, "state": {"terminated": ended}}]}
    async with job(kubeconfig, namespace, first, replica_of=lambda _: "worker-0") as running:
        patch = json.dumps({"status": of_first})
        cluster.kubectl("patch", "pod", "first", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
        # It was created later, as the seconds of the API show it.
        await asyncio.sleep(1.1)
        await running.client.create(PODS, namespace, second)
        phase = "jsonpath={.status.phase}=Failed"
        cluster.kubectl("wait", "pod/second", "-n", namespace, f"--for={phase}", "--timeout=120s")
        running.ended.set()
        got = await with_timeout(running.lines(), 180)
    (missing,) = [text for _, text in got if text.startswith("...")]
    assert "the log of container main in pod first is missing here" in missing
    whole = ["Traceback", *(f"frame {number}" for number in range(50)), "ValueError: nan"]
    assert [text for _, text in got if text != missing] == whole
