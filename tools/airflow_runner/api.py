"""Airflow's REST API (``/api/v2``), as far as we use it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from threading import Lock
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

#: The message of the API where the database was locked, and the seconds before each further attempt.
_LOCKED = "Database error"
_PAUSES = (0.5, 1.0, 2.0, 4.0)
#: The states in which a DAG run or a task instance stays.
FINAL_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
#: Seconds to wait for something that takes a few seconds on an idle machine, and for the end of a task or a run. Both
#: are upper bounds, for machines that stall.
TIMEOUT = 180.0
RUN_TIMEOUT = 360.0
#: Seconds to wait for an answer: longer than the API server itself waits for SQLite's lock.
ANSWER_SECONDS = 90.0
_HEALTH_SECONDS = 10.0


class AirflowApiError(Exception):
    """
    The API answered with an error.

    :param status: HTTP status.
    :param detail: the answer, with method and path.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"HTTP {status}: {detail}")
        self.status = status


def wait_until(probe: Callable[[], T | None], timeout: float, what: Callable[[], str], every: float = 0.2) -> T:
    """
    Call a function until it returns something.

    :param probe: returns None for "not yet". An API server that does not answer, or answers with an internal error,
        means the same: the database is locked now and then, and a busy machine stalls.
    :param timeout: seconds.
    :param what: returns, after the timeout, what was waited for and what was seen instead.
    :param every: seconds between two calls.
    :raises TimeoutError: it took too long; with the last such failure of the API server.
    """
    deadline, failure = time.monotonic() + timeout, ""
    while True:
        try:
            if (answer := probe()) is not None:
                return answer
        except (AirflowApiError, httpx.HTTPError) as error:
            if not _is_passing(error):
                raise
            failure = f"; last failure of the API server: {_text(error)}"
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout:g} s: {_seen(what)}{failure}")
        time.sleep(every)


def _is_passing(error: AirflowApiError | httpx.HTTPError) -> bool:
    """Whether the same request may succeed later: there was no answer, or a status from 500 on."""
    if isinstance(error, AirflowApiError):
        return error.status >= 500
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)


def _seen(what: Callable[[], str]) -> str:
    """Return what was seen. That may need requests to the API server, which may fail as well."""
    try:
        return what()
    except (AirflowApiError, httpx.HTTPError) as error:
        return f"unknown, as the API server fails: {_text(error)}"


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class AirflowApi:
    """
    A client of one Airflow, authenticated as its admin.

    :param url: the API server's address.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=ANSWER_SECONDS)
        # The API server writes its audit log in its event loop. With SQLite this blocks the server, and all of Airflow,
        # if another request has the database's lock and waits for the event loop.
        self._writing = Lock()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def request(self, method: str, path: str, **kwargs: Any) -> Any:
        """
        Call the API. The call is repeated where another writer had locked SQLite, so that the request had no effect.

        :param method: HTTP method.
        :param path: below ``/api/v2``.
        :param kwargs: as httpx takes them: ``json``, ``params``, ``headers``.
        :return: the JSON body, or the text of any other content type.
        :raises AirflowApiError: the status was 400 or above.
        """
        if "Authorization" not in self._client.headers:
            token = self._client.get("/auth/token").raise_for_status().json()["access_token"]
            self._client.headers["Authorization"] = f"Bearer {token}"
        for pause in (*_PAUSES, None):
            with nullcontext() if method == "GET" else self._writing:
                response = self._client.request(method, f"/api/v2{path}", **kwargs)
            if pause is None or response.status_code != 500 or _LOCKED not in response.text:
                break
            time.sleep(pause)
        if response.is_error:
            raise AirflowApiError(response.status_code, f"{method} {path}: {response.text[:2000]}")
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return response.json() if is_json and response.content else response.text

    def _found(self, path: str, **kwargs: Any) -> dict[str, Any] | None:
        try:
            return dict(self.request("GET", path, **kwargs))
        except AirflowApiError as error:
            if error.status != 404:
                raise
            return None

    def health(self) -> dict[str, str | None]:
        """Return the status of each component; empty while the API server does not answer."""
        try:
            answer = self._client.get("/api/v2/monitor/health", timeout=_HEALTH_SECONDS)
            if answer.is_success:
                # The first request to the execution API builds its routes, which takes seconds. It is sent now, so that
                # the first task does not wait for it.
                self._client.get("/execution/health")
        except httpx.TransportError:
            return {}
        if answer.is_error:
            return {}
        return {name: part["status"] for name, part in answer.json().items()}

    def wait_for_dag(self, dag_id: str, timeout: float = TIMEOUT) -> dict[str, Any]:
        """
        Wait until the DAG processor has parsed a DAG.

        :param dag_id: the DAG.
        :param timeout: seconds.
        :raises TimeoutError: with the import errors of the DAG files, if there are any.
        """
        return wait_until(
            lambda: self._found(f"/dags/{dag_id}"),
            timeout,
            lambda: f"no DAG {dag_id!r}; import errors: {self.import_errors()}",
        )

    def import_errors(self) -> dict[str, str]:
        """Return file -> stack trace of the DAG files that could not be imported."""
        found = self.request("GET", "/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    def trigger_dag(
        self, dag_id: str, conf: Mapping[str, Any] | None = None, timeout: float = TIMEOUT, run_id: str | None = None
    ) -> str:
        """
        Start a run, as soon as the DAG is known.

        :param dag_id: the DAG.
        :param conf: the run's conf.
        :param timeout: seconds to wait for the DAG, and for the run.
        :param run_id: the run's id; None lets Airflow choose one.
        :return: the run's id.
        """
        self.wait_for_dag(dag_id, timeout)
        body = {"logical_date": None, "conf": dict(conf or {}), **({"dag_run_id": run_id} if run_id else {})}
        run_id = str(self.request("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])
        # The server answers before it commits.
        wait_until(lambda: self._found(f"/dags/{dag_id}/dagRuns/{run_id}"), timeout, lambda: f"no run {run_id}")
        return run_id

    def run_state(self, dag_id: str, run_id: str) -> str:
        """
        Return a run's state now.

        :param dag_id: the DAG.
        :param run_id: the run.
        """
        return str(self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def wait_for_run(self, dag_id: str, run_id: str, timeout: float = RUN_TIMEOUT) -> str:
        """
        Wait for a run's end.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param timeout: seconds.
        :return: its final state.
        :raises TimeoutError: with the states of its tasks.
        """

        def probe() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in FINAL_STATES else None

        return wait_until(probe, timeout, lambda: f"{dag_id} {run_id}: {self.task_states(dag_id, run_id)}")

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """
        Return all task instances of a run.

        :param dag_id: the DAG.
        :param run_id: the run.
        """
        found = self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return list(found["task_instances"])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """
        Return task id -> state; a mapped task has a ``[map_index]`` after its id.

        :param dag_id: the DAG.
        :param run_id: the run.
        """
        return {
            task["task_id"] + (f"[{task['map_index']}]" if task["map_index"] >= 0 else ""): task["state"]
            for task in self.task_instances(dag_id, run_id)
        }

    def task_instance(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """
        Return a task instance as the API shows it: state, try_number, start_date, rendered_fields, ...

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param map_index: of a mapped task.
        """
        return dict(self.request("GET", _task_path(dag_id, run_id, task_id, map_index)))

    def wait_for_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        states: str | frozenset[str] = FINAL_STATES,
        timeout: float = RUN_TIMEOUT,
        map_index: int = -1,
        try_number: int = 0,
    ) -> dict[str, Any]:
        """
        Wait until a task instance is in one of these states.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param states: one state or several.
        :param timeout: seconds.
        :param map_index: of a mapped task.
        :param try_number: the first try to wait for. Set it after :meth:`clear`, as the server answers before it
            commits.
        :return: the task instance.
        :raises TimeoutError: with the states of the run's tasks.
        """
        wanted = frozenset({states}) if isinstance(states, str) else states

        def probe() -> dict[str, Any] | None:
            found = self.task_instance(dag_id, run_id, task_id, map_index)
            return found if found["state"] in wanted and found["try_number"] >= try_number else None

        return wait_until(probe, timeout, lambda: f"{dag_id} {run_id}: {self.task_states(dag_id, run_id)}")

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str, map_index: int = -1) -> None:
        """
        Mark a task instance, as the UI's "Mark state as" does.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param state: ``success``, ``failed`` or ``skipped``.
        :param map_index: of a mapped task.
        """
        path = _task_path(dag_id, run_id, task_id, map_index)
        self.request("PATCH", path, json={"new_state": state})

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        """
        Clear tasks of a run, as the UI does: they run again.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_ids: the tasks; none means all.
        """
        body: dict[str, Any] = {"dry_run": False, "dag_run_id": run_id, "only_failed": False}
        if task_ids:
            body["task_ids"] = list(task_ids)
        self.request("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """
        Delete a run that has ended, with its tasks and their XCom.

        :param dag_id: the DAG.
        :param run_id: the run.
        """
        self.request("DELETE", f"/dags/{dag_id}/dagRuns/{run_id}")

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Any:
        """
        Return what a task pushed, or None if there is nothing under that key.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param key: the XCom's key.
        :param map_index: of a mapped task.
        """
        path = f"{_task_path(dag_id, run_id, task_id)}/xcomEntries/{key}"
        found = self._found(path, params={"map_index": map_index})
        return None if found is None else found["value"]

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, map_index: int = -1) -> str:
        """
        Return the messages of a try's log, one a line, as the UI's log page shows them.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param try_number: from 1.
        :param map_index: of a mapped task.
        """
        text = self.request(
            "GET",
            f"{_task_path(dag_id, run_id, task_id)}/logs/{try_number}",
            params={"full_content": True, "map_index": map_index},
            headers={"Accept": "application/x-ndjson"},
        )
        messages = [json.loads(line) for line in text.splitlines() if line.strip()]
        return "\n".join(_message_text(message) for message in messages)


def _task_path(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
    path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
    return path if map_index < 0 else f"{path}/{map_index}"


def _message_text(message: Any) -> str:
    if not isinstance(message, dict):
        return str(message)
    errors = [f"{e.get('exc_type')}: {e.get('exc_value')}" for e in message.get("error_detail") or []]
    return "\n".join([str(message.get("event", "")), *errors])
