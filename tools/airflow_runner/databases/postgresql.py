"""A PostgreSQL server for one instance: Debian's programs, on a free port of this machine."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import sqlalchemy

from tools.airflow_runner.databases.template import cache_folder, migrate
from tools.airflow_runner.ports import free_port

#: PostgreSQL does not run as root.
_USER = "postgres"
_DATABASE = "airflow"
#: The same encoding and locale on every machine.
_TEXT = ("--encoding=UTF8", "--no-locale")
#: The version of the templates: increase it when they are created in another way.
_FORMAT = 2
#: Faster, and without durability: no data has to survive a power failure.
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
#: Selects the sessions of a component that hold row locks, or may hold some after their current statement.
_HOLDING = (
    "select 1 from pg_stat_activity where application_name = :name "
    "and (state = 'active' or state like 'idle in transaction%')"
)


class Postgresql:
    """
    A server with one database.

    :param name: a unique name for its folder. The folder is among the machine's temporary files, where the server's
        user can reach it.
    """

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.gettempdir()) / f"airflow-postgresql-{name}"
        self.port = free_port()
        self._data = self.folder / "data"

    def prepare(self, env: Mapping[str, str], like: Postgresql | None = None) -> None:
        """Copy the files of another server, or of the template, and start."""
        self._make_folder()
        if like:
            self._run("pg_basebackup", f"--pgdata={self._data}", "--checkpoint=fast", *like.address)
        else:
            shutil.copytree(_template(), self._data, symlinks=True)
            self._own()
        self.start(env)

    def start(self, env: Mapping[str, str]) -> None:
        """
        Start the server.

        :param env: of its processes.
        :raises RuntimeError: it does not start; with its log.
        """
        settings = ("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.folder}")
        options = " ".join(f"-c {setting}" for setting in (*settings, *_QUICK, "max_connections=300"))
        log = self.folder / "log"
        try:
            arguments = (f"--pgdata={self._data}", f"--options={options}", f"--log={log}", "--wait", "--timeout=180")
            self._run("pg_ctl", *arguments, "start", env=env)
        except BaseException as error:
            # A server that is slow to start would continue to start.
            with contextlib.suppress(Exception):
                self._run("pg_ctl", f"--pgdata={self._data}", "--mode=immediate", "--wait", "stop")
            if not isinstance(error, subprocess.CalledProcessError):
                raise
            raise RuntimeError(f"PostgreSQL does not start:\n{_end_of(log)}") from error

    def stop(self) -> None:
        """End the server, even if clients are connected to it."""
        self._run("pg_ctl", f"--pgdata={self._data}", "--mode=fast", "--wait", "stop")

    @property
    def outside(self) -> str:
        """Its folder."""
        return str(self.folder)

    def create(self, env: Mapping[str, str]) -> None:
        """
        Start a new server with a database that has no tables.

        :param env: of its processes.
        """
        self._make_folder()
        self._run("initdb", f"--pgdata={self._data}", f"--username={_DATABASE}", "--auth=trust", *_TEXT)
        self.start(env)
        try:
            self._run("createdb", *self.address, _DATABASE)
        except BaseException:
            with contextlib.suppress(Exception):
                self.stop()
            raise

    @property
    def address(self) -> tuple[str, ...]:
        """The options by which its programs reach the server."""
        return "--host=127.0.0.1", f"--port={self.port}", f"--username={_DATABASE}"

    def url(self, lock_seconds: int) -> str:
        """Return its URL. ``lock_seconds`` is not used: PostgreSQL locks single rows and not the whole database."""
        return f"postgresql+psycopg2://{_DATABASE}@127.0.0.1:{self.port}/{_DATABASE}"

    def is_held_by(self, component: str) -> bool:
        """Return whether a session of the component has begun a transaction, and may hold rows."""
        engine = sqlalchemy.create_engine(self.url(0))
        try:
            with engine.connect() as connection:
                return connection.execute(sqlalchemy.text(_HOLDING), {"name": component}).first() is not None
        finally:
            engine.dispose()

    @property
    def process(self) -> int:
        """The id of the server's first process."""
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    @property
    def data(self) -> Path:
        """The folder with its files. Another server can start with a copy of them once this one has ended."""
        return self._data

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700)
        self._own()

    def _own(self) -> None:
        if os.getuid() == 0:
            subprocess.run(["chown", "--recursive", f"{_USER}:{pwd.getpwnam(_USER).pw_gid}", self.folder], check=True)

    def _run(self, program: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        as_user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.getuid() == 0 else []
        command = [*as_user, str(_programs() / program), *arguments]
        subprocess.run(command, cwd=self.folder, env=env, check=True, stdout=subprocess.DEVNULL)


def _programs() -> Path:
    found = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    if found is None:
        raise RuntimeError("There is no PostgreSQL here. As root: apt-get install postgresql")
    return found


def _template() -> Path:
    """The files of a stopped server, whose database has Airflow's tables."""
    name = f"metadata-{version('apache-airflow-core')}-postgresql-{_programs().parent.name}-{_FORMAT}"
    template = cache_folder() / name
    if not template.exists():
        template.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=template.parent) as home:
            _make(Path(home), template)
    return template


def _make(home: Path, template: Path) -> None:
    server = Postgresql(f"template-{os.getpid()}")
    try:
        server.create(os.environ)
        try:
            migrate(home, server.url(0))
        finally:
            server.stop()
        copy = home / "data"
        shutil.copytree(server.data, copy, symlinks=True)
        # Another process may have created the template meanwhile.
        with contextlib.suppress(OSError):
            copy.rename(template)
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else "it wrote no log"
