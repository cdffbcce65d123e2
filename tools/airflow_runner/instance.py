"""One running Airflow."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Row, create_engine, text

from tools.airflow_runner.api import RUN_TIMEOUT, TIMEOUT, AirflowApi, wait_until
from tools.airflow_runner.code import code_digest
from tools.airflow_runner.databases import chosen_database
from tools.airflow_runner.ports import free_port
from tools.airflow_runner.record import Record, end_recorded
from tools.airflow_runner.settings import (
    API_SERVER_LOCK_SECONDS,
    LOCK_SECONDS,
    Config,
    base_config,
    environment,
    write_config,
)

#: Component -> its command. Logs are read from the common folder, so no log server is needed.
COMPONENTS: Mapping[str, Sequence[str]] = {
    "api-server": ["api-server"],
    "dag-processor": ["dag-processor"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}

#: The names of these components, and of the metadata database, at the health endpoint.
HEALTHY_PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")

#: How often the health of an Airflow is checked before it counts as lost, and the seconds in between: on a busy machine
#: a heartbeat or an answer is late now and then.
_LOOKS = 3
_BETWEEN_LOOKS = 2.0


class AirflowInstance(AirflowApi):
    """
    An Airflow with a home, a database and a free port of its own, and its REST API.

    :param home: its AIRFLOW_HOME; emptied at the start. Each component's output goes to ``<component>.log``
        there.
    :param dags: folders with DAG files.
    :param config: section -> option -> value, over the defaults of :mod:`tools.airflow_runner.settings`.
    :param env: environment variables for all of its processes.
    :param env_of: component -> environment variables for it alone, and for the processes that it starts. The scheduler
        starts the workers.
    :param path: of its address, such as ``/team/airflow``; empty for none.

    As a context manager it starts, and stops at the end.
    """

    def __init__(
        self,
        home: Path,
        dags: Sequence[Path],
        config: Config | None = None,
        env: Mapping[str, str] | None = None,
        env_of: Mapping[str, Mapping[str, str]] | None = None,
        path: str = "",
    ) -> None:
        port = free_port()
        super().__init__(f"http://127.0.0.1:{port}{path}")
        self.home = home.absolute()
        self.marker = secrets.token_hex(16)
        self.database = chosen_database(self.home, self.marker)
        self.record = Record(str(self.home), self.marker, self.url, code_digest(), self.database.outside)
        folders = [folder.absolute() for folder in dags]
        self._config = [base_config(self.home, port, folders, self.database.url(LOCK_SECONDS), path), config or {}]
        self.env = environment(self.home, self.marker, env or {})
        of_api_server = {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database.url(API_SERVER_LOCK_SECONDS),
            **(env_of or {}).get("api-server", {}),
        }
        self._env_of = {**(env_of or {}), "api-server": of_api_server}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> AirflowInstance:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def start(self, timeout: float = RUN_TIMEOUT) -> AirflowInstance:
        """
        Start all components and wait until each is healthy.

        :param timeout: seconds.
        :raises TimeoutError: a component is not healthy; all are stopped again.
        :raises RuntimeError: a component ended; all are stopped again.
        """
        self.prepare()
        try:
            for component in COMPONENTS:
                self._launch(component)
            self.wait_until_healthy(timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def prepare(self, like: AirflowInstance | None = None) -> None:
        """
        Create the home with its settings and its database, which are what Airflow's commands need.

        :param like: another prepared instance, whose rows are copied into the database.
        """
        end_recorded(self.home)
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        write_config(self.home / "airflow.cfg", *self._config)
        try:
            self.database.prepare(self.env, like.database if like else None)
            self.record.write()
        except BaseException:
            self.record.end(grace=10)
            raise

    def stop(self, grace: float = 10) -> None:
        """
        End all components, and every process that they started.

        :param grace: seconds between SIGTERM and SIGKILL.
        """
        self.close()
        self.record.end(grace)
        for process in self._running.values():
            process.wait()

    def wait_until_healthy(self, timeout: float = TIMEOUT) -> None:
        """
        Wait until the health endpoint reports that every component is healthy.

        :param timeout: seconds.
        :raises TimeoutError: a component is not healthy.
        :raises RuntimeError: a component ended.
        """

        def probe() -> bool | None:
            for component, process in self._running.items():
                if process.poll() is not None:
                    tail = "\n".join(self.component_log(component).splitlines()[-20:])
                    raise RuntimeError(f"{component} ended with {process.returncode}:\n{tail}")
            return _all_healthy(self.health()) or None

        wait_until(probe, timeout, lambda: f"health {self.health()}, see {self.home}/*.log", every=0.1)

    def component_log(self, component: str) -> str:
        """
        Return what a component wrote so far.

        :param component: a key of :data:`COMPONENTS`.
        """
        return (self.home / f"{component}.log").read_text(errors="replace")

    def add(self, name: str, component: str) -> None:
        """
        Start another process of a component, as in a deployment with several of them; do not wait for it.

        :param name: what to call it; its output goes to ``<name>.log``.
        :param component: a key of :data:`COMPONENTS`.
        """
        self._launch(name, component)

    def send(self, component: str, signum: signal.Signals) -> None:
        """
        Send a component's whole process group a signal that does not end it.

        :param component: a key of :data:`COMPONENTS`, or a name given to :meth:`add`.
        :param signum: the signal, such as SIGSTOP.
        """
        os.killpg(self._running[component].pid, signum)

    def stall(self, component: str) -> None:
        """
        Stop a component's whole process group, but not while it holds a lock of the database.

        It continues with SIGCONT.

        :param component: a key of :data:`COMPONENTS`, or a name given to :meth:`add`.
        """
        for _ in range(50):
            self.send(component, signal.SIGSTOP)
            if not self.database.is_held_by(component):
                return
            self.send(component, signal.SIGCONT)
            time.sleep(0.1)
        raise TimeoutError(f"{component} holds a lock of the database")

    def kill(self, component: str, signum: signal.Signals = signal.SIGKILL) -> None:
        """
        Signal a component's whole process group, as the loss of its container would, and wait for its end.

        :param component: a key of :data:`COMPONENTS`.
        :param signum: the signal.
        """
        process = self._running.pop(component)
        os.killpg(process.pid, signum)
        process.wait(timeout=TIMEOUT)

    def restart(self, component: str, timeout: float = TIMEOUT) -> None:
        """
        Start a component, after ending it if it runs, and wait until all are healthy.

        :param component: a key of :data:`COMPONENTS`.
        :param timeout: seconds.
        """
        if component in self._running:
            self.kill(component, signal.SIGTERM)
        self._launch(component)
        self.wait_until_healthy(timeout)

    def sql(self, statement: str, **values: Any) -> list[Row[Any]]:
        """
        Run a statement on the database, where the REST API has no request for it.

        :param statement: with a ``:name`` for each value.
        :param values: by these names.
        :return: the rows that it selects.
        """
        engine = create_engine(self.database.url(LOCK_SECONDS))
        try:
            with engine.begin() as connection:
                found = connection.execute(text(statement), values)
                return list(found) if found.returns_rows else []
        finally:
            engine.dispose()

    def pid(self, component: str) -> int:
        """
        Return the process id of a component.

        :param component: a key of :data:`COMPONENTS`.
        """
        return self._running[component].pid

    def _launch(self, name: str, component: str | None = None) -> None:
        component = component or name
        with (self.home / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "airflow", *COMPONENTS[component]],
                # PGAPPNAME shows in PostgreSQL which component a session belongs to.
                env={**self.env, "PGAPPNAME": name, **self._env_of.get(component, {})},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def is_healthy(url: str) -> bool:
    """
    Return whether all components of the Airflow at this address are healthy.

    :param url: its address.
    """
    with closing(AirflowApi(url)) as airflow:
        for look in range(_LOOKS):
            if look:
                time.sleep(_BETWEEN_LOOKS)
            if _all_healthy(airflow.health()):
                return True
    return False


def _all_healthy(health: Mapping[str, str | None]) -> bool:
    return all(health.get(part) == "healthy" for part in HEALTHY_PARTS)
