"""Trainer's protocol on loopback: what a request reports, and which requests are refused."""

from __future__ import annotations

import http.client
import json
import socket
import threading

import pytest

from airflow_trainer_provider.job.progress.report import Report, read_json_line
from airflow_trainer_provider.training.server import Server, reports_of


def _metrics(**values):
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("status", "reports"),
    [
        (None, []),
        ({}, []),
        ({"progressPercentage": None, "estimatedRemainingSeconds": None, "metrics": None}, [{}]),
        ({"lastUpdatedTime": "2026-01-01T00:00:00Z"}, [{}]),
        # As Hugging Face's callback begins, goes on and ends.
        ({"progressPercentage": 0, "metrics": _metrics(total_steps="40")}, [{"percent": 0, "total_steps": 40}]),
        (
            {
                "progressPercentage": 30,
                "estimatedRemainingSeconds": 12,
                "metrics": _metrics(loss="0.5", current_step="12", total_steps="40", current_epoch="0.3"),
            },
            [
                {"percent": 30, "remaining_seconds": 12, "step": 12, "total_steps": 40}
                | {"metrics": {"loss": 0.5, "current_epoch": 0.3}}
            ],
        ),
        ({"progressPercentage": 100, "metrics": _metrics(loss="0.25")}, [{"percent": 100, "metrics": {"loss": 0.25}}]),
        # No numbers of steps stay metrics.
        (
            {"metrics": _metrics(current_step="1.5", total_steps="0")},
            [{"metrics": {"current_step": 1.5, "total_steps": 0.0}}],
        ),
        ({"metrics": [{"name": "eval f1 (%)", "value": "1e3"}]}, [{"metrics": {"eval_f1____": 1000.0}}]),
        ({"metrics": [{"name": "9", "value": "1"}, {"name": "a", "value": "high"}]}, [{}]),
        (
            {"progressPercentage": 5, "metrics": _metrics(**{f"m{at}": "1" for at in range(40)})},
            [
                {"percent": 5, "metrics": {f"m{at}": 1.0 for at in range(32)}},
                {"metrics": {f"m{at}": 1.0 for at in range(32, 40)}},
            ],
        ),
    ],
)
def test_what_a_request_reports(status, reports):
    assert list(reports_of({"trainerStatus": status})) == reports
    for each in reports:
        assert isinstance(read_json_line(json.dumps({"trainer_progress": each})), Report)


#: Request -> what is wrong with it.
WRONG = [
    ([], "list instead of dict"),
    ({"trainerStatus": 5}, "int instead of dict"),
    ({"trainerStatus": {"progressPercentage": 101}}, "101 is no whole number up to 100"),
    ({"trainerStatus": {"progressPercentage": True}}, "True is no whole number"),
    ({"trainerStatus": {"progressPercentage": "5"}}, "'5' is no whole number"),
    ({"trainerStatus": {"estimatedRemainingSeconds": -1}}, "-1 is no whole number"),
    ({"trainerStatus": {"metrics": {"loss": 1}}}, "dict instead of list"),
    ({"trainerStatus": {"metrics": ["loss"]}}, "str instead of dict"),
    ({"trainerStatus": {"metrics": [{"name": "loss", "value": 0.5}]}}, "float instead of str"),
    ({"trainerStatus": {"metrics": [{"value": "0.5"}]}}, "NoneType instead of str"),
    ({"trainerStatus": {"metrics": _metrics(**{f"m{at}": "1" for at in range(257)})}}, "257 metrics"),
]


@pytest.mark.parametrize(("request_", "why"), WRONG)
def test_what_is_no_request(request_, why):
    with pytest.raises(ValueError, match=why):
        list(reports_of(request_))


@pytest.fixture
def served(monkeypatch):
    """A server, and a function (body, token, method) that asks it; returns the status and the body of the answer."""
    monkeypatch.delenv("TRAINER_RANK_VARIABLES", raising=False)
    server = Server(("127.0.0.1", 0), "the-token")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()

    def ask(body, token="the-token", method="POST", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        headers = {"Authorization": f"Bearer {token}", **headers}
        connection.request(method, "/", body, headers)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    ask.server = server
    yield ask
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_request_is_a_line_of_the_log_before_it_is_answered(served, capfd):
    body = json.dumps({"trainerStatus": {"progressPercentage": 7, "metrics": _metrics(loss="0.5")}}).encode()

    assert served(body) == (200, body)

    captured = capfd.readouterr()
    assert read_json_line(captured.out) == Report(percent=7, metrics={"loss": 0.5})
    # No lines of its own.
    assert (captured.out.count("\n"), captured.err) == (1, "")


def test_requests_that_are_refused_print_nothing(served, capfd):
    good = b'{"trainerStatus": {"progressPercentage": 7}}'

    answers = [
        served(good, token="another")[0],
        served(good, Authorization="the-token")[0],
        served(good, Authorization="Bearer \xe9")[0],
        served(good, method="GET")[0],
        served(b"{")[0],
        served(b"\xff")[0],
        served(b"[" * 60000)[0],
        served(json.dumps(WRONG[2][0]).encode())[0],
        served(None, **{"Content-Length": "70000"})[0],
        served(None, **{"Content-Length": "\xb2"})[0],
        served(None, **{"Content-Length": "-1"})[0],
    ]

    assert answers == [403, 403, 403, 501, 422, 422, 422, 422, 413, 413, 413]
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_a_client_that_says_nothing_delays_no_other(served, capfd):
    with socket.create_connection(served.server.server_address) as silent:
        silent.sendall(b"POST / HTTP/1.1\r\n")

        assert served(b'{"trainerStatus": {}}')[0] == 200
    # One that is gone is not said either.
    assert served(b'{"trainerStatus": {}}')[0] == 200
    assert capfd.readouterr().err == ""
