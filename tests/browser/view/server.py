"""The page's files and sample answers, with the headers that the plugin sets."""

from __future__ import annotations

import copy
import hashlib
import json
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.browser.view import samples
from tests.browser.view.dag import samples as dag_samples
from tests.browser.view.jobs import samples as job_samples
from tools.airflow_runner.code import CHECKOUT

STATIC = CHECKOUT / "airflow_trainer_provider" / "plugins" / "view" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'self'"
)
#: Airflow may stand below a path of its host.
PREFIX = "/airflow"


#: As Airflow 3 frames an external view, with its theme and a colour of the deployment.
FRAME = """<!doctype html><html class="dark" style="--chakra-colors-bg: rgb(1, 2, 3)"><link rel="icon" href="data:,">
<script>window.followed = 0; addEventListener("popstate", () => {{ window.followed += 1; }});</script>
<iframe width="900" height="900"
  sandbox="allow-scripts allow-same-origin allow-forms allow-downloads" src="{}"></iframe>
"""


@dataclass
class ViewServer:
    """Serves each sample as the DAG of its name.

    :param url: its address, with Airflow's prefix.
    :param views: name -> task view and replicas; a test may change them.
    :param dags: name -> the records of a DAG; likewise.
    :param jobs: the records of all jobs; likewise.
    :param refused: name -> the status that its requests get instead.
    :param token: what each request for data needs instead of a session; None for none.
    :param requests: method, path and status of each request.
    """

    url: str = ""
    views: dict[str, list[Any]] = field(default_factory=dict)
    dags: dict[str, Any] = field(default_factory=dict)
    jobs: list[Any] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    token: str | None = None
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    posted: list[tuple[str, Any]] = field(default_factory=list)

    def reset(self) -> None:
        """Serve the samples as they are."""
        self.views = {
            name: [copy.deepcopy(view), copy.deepcopy(rows)] for name, (view, rows) in samples.SAMPLES.items()
        }
        self.dags = dict(dag_samples.RECORDS)
        self.jobs = job_samples.records()
        self.token = None
        for each in (self.refused, self.requests, self.posted):
            each.clear()

    def page(self, name: str, **choices: str) -> str:
        """The address of a sample's page."""
        chosen = "".join(f"&{key}={quote(value)}" for key, value in choices.items())
        run = quote("scheduled__2026-11-21T12:00:00+00:00", safe="")
        if name in self.dags:
            return f"{self.url}/trainer/dag?dag_id={name}{chosen}"
        return f"{self.url}/trainer/task?dag_id={name}&run_id={run}&task_id=train&map_index=%7BMAP_INDEX%7D{chosen}"

    def frame(self, name: str) -> str:
        """The address of a page that frames a sample's page as Airflow does."""
        return f"{self.url}/frame?{quote(self.page(name), safe='')}"

    def answer(self, path: str, query: dict[str, list[str]]) -> Any:
        """The JSON of a path below `/trainer/api/tasks/`, or the status that refuses it."""
        dag_id, _run, task_id, map_index, *rest = [unquote(part) for part in path.split("/")]
        if dag_id in self.refused:
            return self.refused[dag_id]
        if task_id != "train" or map_index != "-1" or dag_id not in self.views:
            return 404
        view, rows = self.views[dag_id]
        if rest == ["replicas"]:
            return rows
        return samples.series(query["metric"][0]) if rest == ["series"] else view

    def dag_answer(self, path: str, query: dict[str, list[str]]) -> Any:
        """The JSON of a path below `/trainer/api/dags/`, or the status that refuses it."""
        dag_id, *rest = [unquote(part) for part in path.split("/")]
        if dag_id in self.refused:
            return self.refused[dag_id]
        return dag_samples.answer(self.dags[dag_id], rest, query) if dag_id in self.dags else 404


class _Handler(BaseHTTPRequestHandler):
    view: ViewServer
    protocol_version = "HTTP/1.1"

    def _send(self, status: int, body: bytes, kind: str, tag: str | None = None, policy: str | None = POLICY) -> None:
        self.view.requests.append((self.command, self.path, status))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if policy:
            self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(body)

    def _json(self, value: Any) -> None:
        if self.view.token and self.headers.get("Authorization") != f"Bearer {self.view.token}":
            value = 401
        if isinstance(value, int):
            self._send(value, json.dumps({"detail": "Refused by the test"}).encode(), "application/json")
            return
        body = json.dumps(value).encode()
        # As in the plugin: when it was known last makes no new answer.
        counted = {name: each for name, each in value.items() if name != "as_of"}
        tag = f'W/"{hashlib.sha256(json.dumps(counted).encode()).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == tag:
            self._send(304, b"", "application/json", tag)
        else:
            self._send(200, body, "application/json", tag)

    def _file(self, path: Path) -> None:
        body = path.read_bytes()
        if path.name.endswith(".html"):
            body = body.replace(b"__TRAINER_BASE__", f"{PREFIX}/trainer".encode())
        self._send(200, body, mimetypes.guess_type(path.name)[0] or "application/octet-stream")

    def _jobs(self, path: str, query: dict[str, list[str]]) -> None:
        if path == "jobs":
            self._file(STATIC / "jobs.html")
        else:
            self._json(self.view.refused.get("jobs") or job_samples.answer(self.view.jobs, query))

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        path = address.path.removeprefix(f"{PREFIX}/trainer/")
        if path in ("jobs", "api/jobs"):
            self._jobs(path, parse_qs(address.query))
        elif path.startswith("api/tasks/"):
            self._json(self.view.answer(path.removeprefix("api/tasks/"), parse_qs(address.query)))
        elif path.startswith("api/dags/"):
            self._json(self.view.dag_answer(path.removeprefix("api/dags/"), parse_qs(address.query)))
        elif address.path == f"{PREFIX}/frame":
            self._send(200, FRAME.format(escape(unquote(address.query))).encode(), "text/html", policy=None)
        elif path in ("task", "dag"):
            self._file(STATIC / f"{path}.html")
        elif path.startswith("static/") and (STATIC / path.removeprefix("static/")).is_file():
            self._file(STATIC / path.removeprefix("static/"))
        else:
            self._send(404, b"", "text/plain")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.removeprefix(f"{PREFIX}/trainer/api/tasks/")
        refused = self.view.refused.get(path.split("/")[0])
        if refused:
            self._json(refused)
            return
        self.view.posted.append((path.rsplit("/", 1)[-1], json.loads(body)))
        self._send(202, b"{}", "application/json")

    def log_message(self, format: str, *args: Any) -> None:
        """The test reads the requests from the server."""


@contextmanager
def serve() -> Iterator[ViewServer]:
    """Serve on a free port until the end of the block."""
    view = ViewServer()
    view.reset()
    handler = type("Handler", (_Handler,), {"view": view})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        view.url = f"http://127.0.0.1:{server.server_address[1]}{PREFIX}"
        yield view
        server.shutdown()
