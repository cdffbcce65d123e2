"""A tool of rank 0 is reached at its Service, also after a later try has adopted the job, and is gone with the job."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from airflow_trainer_provider.cluster.operations import create
from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.objects.labels import COMPLETE, TOOL
from airflow_trainer_provider.kinds.registry import BACKENDS
from tests.cluster.shell import CommandFailed

#: Each replica serves its name; what a tool of the job's is reached at has to be the first one's.
_SERVES = """
import http.server, threading

class Names(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(me.encode())

    def log_message(self, *words):
        pass

threading.Thread(target=http.server.HTTPServer(("", 8000), Names).serve_forever, daemon=True).start()
note("serves", me)
wait_for("end")
"""
_FIXED = 32111
_TAKEN = range(32112, 32120)
#: How soon a new Service forwards its port.
_SECONDS = 60


@pytest.fixture(autouse=True)
def _its_replicas_run_the_snippet(backend_case: Any) -> None:
    if backend_case.backend.name == "mpi-operator":
        pytest.skip("the launcher alone runs the snippet, and tools are the first worker's")


def _made(contract: Any, kind: str) -> list[str]:
    found = contract.case.access.kubectl.list(kind, contract.case.namespace, TOOL)
    return [each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]]


async def test_a_tool_answers_at_its_node_port_and_goes_with_the_job(contract):
    tools = {
        "web": {"port": 8000, "access": "node_port"},
        "fixed": {"port": 8000, "access": "node_port", "node_port": _FIXED, "path": "/web"},
        "inside": {"port": 8000},
        "outside": {"port": 8000, "access": "ingress", "host": "{job}.example"},
    }
    job = contract.case.job(_SERVES, tools=tools)
    first = await contract.submit(job)
    services = [f"{first.name}-tool-{name}" for name in sorted(tools)]
    assert re.fullmatch(r"http://<node>:3\d{4}/", first.tools["web"])
    assert first.tools["outside"] == f"http://{first.name}.example/"
    assert _made(contract, "services") == services
    # As a try leaves it whose submit was interrupted at its end: the next one finds all that is there.
    contract.case.patch(first, {"metadata": {"annotations": {COMPLETE: None}}})

    handle = await contract.submit(job, try_number=2)

    assert handle == first.model_copy(update={"owner": 2})
    assert _made(contract, "services") == services
    assert _made(contract, "ingresses") == [f"{first.name}-tool-outside"]
    following = asyncio.ensure_future(contract.end(handle))
    await contract.until(lambda: len(contract.noted("serves")) == 2)
    await contract.until(lambda: any(line.startswith("Tool fixed: ") for line in contract.lines))
    shown = dict(line.removeprefix("Tool ").split(": ", 1) for line in contract.lines if line.startswith("Tool "))
    assert shown.keys() == {"web", "fixed"}
    for url in shown.values():
        assert await asyncio.to_thread(_answer, contract, handle, url) == contract.case.leader
    contract.release("end")
    assert (await following).phase is JobPhase.SUCCEEDED
    await contract.backend.acknowledge(handle)
    await contract.until(lambda: not _made(contract, "services") and not _made(contract, "ingresses"))


def _answer(contract: Any, handle: JobHandle, url: str) -> str:
    """What a tool answers to the last replica: the node's ports are open in the node's network only."""
    case, program = contract.case, f"import urllib.request as r; print(r.urlopen({url!r}, timeout=5).read().decode())"
    words = (max(case.pods(handle)), f"--namespace={case.namespace}", "--")
    end = time.monotonic() + _SECONDS
    while True:
        try:
            return str(case.access.kubectl("exec", *words, "python3", "-c", program)).strip()
        except CommandFailed:
            if time.monotonic() > end:
                raise
        time.sleep(0.5)


async def test_a_port_of_the_nodes_that_is_taken_is_named_and_nothing_is_left(contract, monkeypatch):
    monkeypatch.setattr(create, "_PORT_SECONDS", 2)
    case = contract.case
    # The other backends have this test at the same moment.
    taken = _TAKEN[sorted(BACKENDS).index(case.backend.name)]
    port = {"port": 1, "nodePort": taken}
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}}
    where = f"--namespace={case.namespace}"
    case.access.kubectl.apply([{**other, "spec": {"type": "NodePort", "ports": [port]}}], where)
    tools = {"web": {"port": 8000, "access": "node_port", "node_port": taken}}

    with pytest.raises(SubmitError, match=rf"has the port of the nodes.*{taken}.*Set another node_port") as caught:
        await contract.submit(case.job(_SERVES, nodes=1, tools=tools))

    assert caught.value.retryable
    await contract.until(lambda: not _made(contract, "services"))
    assert await contract.backend.find(contract.identity()) == []
    # Its namespace is deleted later than the next test begins.
    case.access.kubectl("delete", "service", "other", where)
