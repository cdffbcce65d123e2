"""A server for Kubeflow Trainer's progress protocol, in the job itself and on its loopback address.

If the feature gate is on, Trainer passes the address of its controller to the pods of a TrainJob. Libraries with this
protocol, such as the callback of Hugging Face's transformers, report to that address if there is one. This server
provides an address on every backend, and prints each report as a line in the log, like
:func:`~airflow_trainer_provider.training.report`.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import re
import secrets
import socketserver
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from airflow_trainer_provider.training.progress import METRIC_NAME, MOST_METRICS, MOST_STEPS, emit, is_first

#: Trainer's variables with the address, and with the path of a file with the token.
URL_VARIABLE, TOKEN_VARIABLE = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"
_LOOPBACK = "127.0.0.1"
#: The variables with proxies, and those with addresses that are reached without a proxy.
_PROXIES, _NO_PROXY = ("http_proxy", "all_proxy"), ("no_proxy", "NO_PROXY")
#: Trainer's limits: the bytes of a request, and the metrics in it.
_MOST_BYTES, _MOST_REPORTED = 1 << 16, 256
#: Field of Trainer's protocol -> the provider's field, and its maximum.
_FIELDS = {"progressPercentage": ("percent", 100), "estimatedRemainingSeconds": ("remaining_seconds", 2**31 - 1)}
#: Metric with which Hugging Face's callback counts steps -> the provider's field, and its minimum.
_STEPS = {"current_step": ("step", 0), "total_steps": ("total_steps", 1)}
#: Seconds for which a connection may be idle.
_READ_TIMEOUT = 5.0


def start(folder: Path) -> None:
    """Serve the protocol until this process ends. Do nothing on ranks other than 0, and if Trainer itself serves it.

    :param folder: the folder for the token's file; if it is read-only, a temporary folder is used.
    :raises OSError: there is no free port, or the token cannot be written.
    """
    if URL_VARIABLE in os.environ or not is_first():
        return
    token = secrets.token_urlsafe()
    # Trainer's clients read the token from a file, which other users cannot read.
    number, path = tempfile.mkstemp(prefix=".token-", dir=folder if os.access(folder, os.W_OK) else None)
    with os.fdopen(number, "w") as file:
        file.write(token)
    atexit.register(_remove, path, os.getpid())
    server = Server((_LOOPBACK, 0), token)
    threading.Thread(target=server.serve_forever, name="trainer-progress", daemon=True).start()
    _reach_without_proxy()
    os.environ[TOKEN_VARIABLE] = path
    os.environ[URL_VARIABLE] = server.url


def _remove(path: str, pid: int) -> None:
    # This function also runs at the end of forked processes, which must not delete the file.
    if os.getpid() == pid:
        with suppress(OSError):
            Path(path).unlink()


def _reach_without_proxy() -> None:
    """Bypass proxies for the loopback address: a proxy would use its own loopback, and the training would wait."""
    known = next(filter(None, map(os.environ.get, _NO_PROXY)), "")
    if known == "*" or not any(os.environ.get(name) for each in _PROXIES for name in (each, each.upper())):
        return
    for name in _NO_PROXY:
        os.environ[name] = ",".join(filter(None, [os.environ.get(name, known), _LOOPBACK]))


class Server(socketserver.ThreadingTCPServer):
    """Answers requests that have the token.

    :param address: host and port; port 0 selects a free port.
    :param token: the token that requests must have.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str) -> None:
        self.token = token
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://{_LOOPBACK}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log a client that has disconnected: the log belongs to the training."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _READ_TIMEOUT

    def do_POST(self) -> None:
        given = self.headers.get("Authorization", "")
        if not secrets.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            self.send_error(403)
            return
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > _MOST_BYTES:
            self.send_error(413)
            return
        body = self.rfile.read(int(size))
        try:
            # Before the answer, for which the training waits, so that it prints no other line at the same time.
            for report in reports_of(json.loads(body)):
                emit(report)
        except (ValueError, RecursionError):
            self.send_error(422)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # Like Trainer's controller, answer with the body of the request.
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests: the log belongs to the training."""


def reports_of(request: Any) -> Iterator[dict[str, Any]]:
    """The reports in a request of Trainer's protocol, in as many parts as its metrics need.

    In the name of a metric, characters that a report does not allow become ``_``. Metrics whose value is not a number,
    or whose name does not begin with a letter, are left out.

    :param request: JSON values.
    :raises ValueError: the request does not follow the protocol.
    """
    status = _of(dict, _of(dict, request).get("trainerStatus") or {})
    content = {ours: _whole(status[name], most) for name, (ours, most) in _FIELDS.items() if _has(status, name)}
    given = _of(list, status.get("metrics") or [])
    if len(given) > _MOST_REPORTED:
        raise ValueError(f"{len(given)} metrics")
    metrics = dict(filter(None, map(_metric, given)))
    for name, (ours, least) in _STEPS.items():
        if _is_count(metrics.get(name), least):
            content[ours] = int(metrics.pop(name))
    if status:
        yield {**content, **_part(metrics, 0)}
    for begin in range(MOST_METRICS, len(metrics), MOST_METRICS):
        yield _part(metrics, begin)


def _part(metrics: Mapping[str, float], begin: int) -> dict[str, Any]:
    """A report with as many metrics as one line may have.

    :param begin: the index of the first metric.
    """
    part = dict(list(metrics.items())[begin : begin + MOST_METRICS])
    return {"metrics": part} if part else {}


def _metric(given: Any) -> tuple[str, float] | None:
    name, value = _of(str, _of(dict, given).get("name")), _of(str, given.get("value"))
    name = re.sub(r"[^A-Za-z0-9_./:@-]", "_", name)[:64]
    try:
        return (name, float(value)) if METRIC_NAME.fullmatch(name) else None
    except ValueError:
        return None


def _has(status: Mapping[str, Any], name: str) -> bool:
    return status.get(name) is not None


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{type(value).__name__} instead of {kind.__name__}")
    return value


def _whole(value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no whole number up to {most}")
    return value


def _is_count(value: float | None, least: int) -> bool:
    return value is not None and math.isfinite(value) and value == int(value) and least <= value <= MOST_STEPS
