"""Waits for a real Airflow outlast moments in which its API server fails, and nothing else."""

from __future__ import annotations

import socket
import subprocess
import sys
from types import SimpleNamespace

import httpx
import pytest

from tools.airflow_runner import __main__ as commands
from tools.airflow_runner import instance as module
from tools.airflow_runner import ports, processes
from tools.airflow_runner.api import AirflowApiError, wait_until
from tools.airflow_runner.instance import HEALTHY_PARTS, is_healthy
from tools.airflow_runner.settings import MARKER

REQUEST = httpx.Request("GET", "http://127.0.0.1:1/api/v2/dags")


def status_error(status):
    return httpx.HTTPStatusError(f"HTTP {status}", request=REQUEST, response=httpx.Response(status))


class Probe:
    """Raises or returns one outcome after the other, the last one again and again."""

    def __init__(self, *outcomes):
        self.outcomes, self.calls = list(outcomes), 0

    def __call__(self):
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


PASSING = [
    AirflowApiError(500, "GET /dags: Database error"),
    AirflowApiError(503, "GET /dags: busy"),
    status_error(502),
    httpx.ReadTimeout("timed out"),
    httpx.ConnectError("connection refused"),
    httpx.RemoteProtocolError("server disconnected"),
]


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_a_failure_of_the_api_server_means_not_yet(error):
    probe = Probe(None, error, error, "there")

    assert wait_until(probe, 60, lambda: "nothing", every=0) == "there"
    assert probe.calls == 4


@pytest.mark.parametrize(
    "error", [AirflowApiError(404, "no such DAG"), status_error(401), RuntimeError("scheduler ended"), KeyError("x")]
)
def test_what_waiting_does_not_mend_is_raised(error):
    with pytest.raises(type(error)) as caught:
        wait_until(Probe(None, error, "there"), 60, lambda: "nothing", every=0)

    assert caught.value is error


def test_a_timeout_names_the_last_failure():
    probe = Probe(AirflowApiError(500, "the first"), httpx.ReadTimeout("the last"), None)

    with pytest.raises(TimeoutError) as caught:
        wait_until(probe, 0.1, lambda: "no run r", every=0)

    assert str(caught.value) == "after 0.1 s: no run r; last failure of the API server: ReadTimeout: the last"


def test_a_timeout_without_a_failure_names_none():
    with pytest.raises(TimeoutError) as caught:
        wait_until(Probe(None), 0, lambda: "no run r", every=0)

    assert str(caught.value) == "after 0 s: no run r"


def test_a_timeout_is_reported_also_where_nothing_can_be_asked():
    with pytest.raises(TimeoutError, match="unknown, as the API server fails: ConnectError: connection refused"):
        wait_until(Probe(None), 0, Probe(httpx.ConnectError("connection refused")), every=0)


@pytest.mark.parametrize(
    ("healths", "expected"),
    [(["late", "healthy"], True), (["away", "healthy"], True), (["late", "late", "away"], False)],
)
def test_an_airflow_counts_as_lost_only_after_several_looks(monkeypatch, healths, expected):
    answers = {
        "healthy": dict.fromkeys(HEALTHY_PARTS, "healthy"),
        "late": dict.fromkeys(HEALTHY_PARTS, "healthy") | {"scheduler": "unhealthy"},
        "away": {},
    }
    look = Probe(*(answers[each] for each in healths))
    monkeypatch.setattr(module.AirflowApi, "health", lambda self: look())
    monkeypatch.setattr(module, "_BETWEEN_LOOKS", 0)

    assert is_healthy("http://127.0.0.1:1") is expected
    assert look.calls == len(healths)


@pytest.mark.local
def test_a_process_that_is_asked_late_is_still_killed(monkeypatch):
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", script], env={MARKER: "m-1"}, stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout is not None
        deaf.stdout.readline()
        times = iter([0.0, 5.0])
        # The machine stalls for an hour after SIGTERM.
        monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: next(times, 3600.0)))
        try:
            processes.end_all("m-1", grace=10)
            assert processes.of_instance("m-1") == []
        finally:
            deaf.kill()


def test_airflow_stays_for_a_quarter_of_an_hour_after_a_demo(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(commands.checkout, "up_for", lambda seconds: asked.append(seconds) or ("http://x", True))
    monkeypatch.setattr(commands, "run_demo", lambda api: 1)

    assert (commands.demo(), asked) == (1, [900])
    assert "stays up for 15 minutes" in capsys.readouterr().out


@pytest.fixture
def taken():
    """A port on which a server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_is_chosen_on_which_no_server_listens(monkeypatch, taken):
    free = ports.free_port()
    monkeypatch.setattr(ports, "_PORTS", (taken, free))

    assert {ports.free_port() for _ in range(20)} == {free}


def test_that_all_ports_are_taken_is_an_error(monkeypatch, taken):
    monkeypatch.setattr(ports, "_PORTS", range(taken, taken + 1))

    with pytest.raises(OSError, match=f"100 ports between {taken} and {taken + 1} are all taken"):
        ports.free_port()
