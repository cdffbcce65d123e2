"""One replica as a process on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from airflow_trainer_provider.job.diagnosis.causes import OUT_OF_MEMORY
from airflow_trainer_provider.job.diagnosis.exit_code import judged_by_exit_code
from airflow_trainer_provider.job.plan.plan import Replica
from airflow_trainer_provider.job.status import SIGNAL_BASE, ReplicaStatus, signal_name
from airflow_trainer_provider.local.machine import limited_to_cpus
from airflow_trainer_provider.local.processes import resident_bytes
from airflow_trainer_provider.spec.compute import parse_quantity
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes
from airflow_trainer_provider.text.redaction import redacted_text

#: The exit codes that a shell, and with it Kubernetes, reports for these errors, and the reason for each.
_EXIT_BY_ERROR = {FileNotFoundError: (127, "CommandNotFound"), PermissionError: (126, "CommandNotExecutable")}


class ReplicaProcess:
    """The process of a replica, and its status.

    :param replica: the replica.
    :param rank: the rank of its process; None where the replica has several ranks, or the launcher assigns them.
    :param restarts: how often it was started before.
    :param codes: the meaning of exit codes by the job's spec.
    """

    def __init__(self, replica: Replica, rank: int | None, restarts: int, codes: ExitCodes | None = None) -> None:
        self.replica = replica
        self.status = ReplicaStatus(group=replica.group, index=replica.index, rank=rank, restarts=restarts)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping: str | None = None
        self._codes = codes
        limit = replica.resources and replica.resources.memory and replica.resources.memory.limits
        self._memory_limit = int(parse_quantity(limit)) if limit else None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended, by the last :meth:`poll`."""
        return self.status.started_at is not None and self.status.finished_at is None

    @property
    def started_here(self) -> bool:
        """Whether a process of its own was started for it."""
        return self._process is not None

    def start(self, argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path) -> None:
        """Start the process, in a session of its own. A process that cannot start counts as ended at once.

        :param argv: its command line.
        :param env: its whole environment.
        :param folder: its working directory.
        :param log: the file that its output is appended to.
        """
        self._update(started_at=_now())
        cpu = self.replica.resources.cpu.limits if self.replica.resources and self.replica.resources.cpu else None
        try:
            with log.open("ab") as output, limited_to_cpus(cpu, self.replica.rank):
                self._process = subprocess.Popen(
                    argv,
                    env=env,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            code, reason = _EXIT_BY_ERROR.get(type(error), (126, "CommandNotExecutable"))
            self._update(exit_code=code, reason=reason, message=redacted_text(str(error)), finished_at=_now())

    def started_elsewhere(self) -> None:
        """Note that another replica's launcher starts its processes."""
        self._update(started_at=_now())

    def ended_elsewhere(self, exit_code: int | None) -> None:
        """Note the end of processes that another replica's launcher started.

        :param exit_code: of the first that failed; 0 where all succeeded; None where they were stopped.
        """
        if exit_code is None:
            self._update(reason="Stopped", finished_at=_now())
        else:
            # A shell reports a signal as 128 plus its number. Other codes above 128 are the program's own, such as
            # exit(-1).
            self._ended(SIGNAL_BASE - exit_code if signal_name(exit_code - SIGNAL_BASE) else exit_code)

    def poll(self) -> bool:
        """Check whether the process has ended.

        :return: whether it has ended just now.
        """
        if self._process is None or not self.running:
            return False
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return False
        # The process was reaped here and not by Popen: set its exit code, so that Popen does not wait for the pid
        # again.
        self._process.returncode = os.waitstatus_to_exitcode(status)
        # Linux counts in KiB, macOS in bytes.
        unit = 1 if os.uname().sysname == "Darwin" else 1024
        self._update(peak_memory_bytes=usage.ru_maxrss * unit)
        self._ended(self._process.returncode)
        return True

    def enforce_memory_limit(self) -> None:
        """Kill the process where it and its descendants hold more memory than the limit."""
        if self._memory_limit is None or self._process is None or not self.running:
            return
        held = resident_bytes(self._process.pid)
        if held > self._memory_limit:
            self._stopping = OUT_OF_MEMORY
            self._update(message=f"it held {held} bytes of memory; its limit is {self._memory_limit}")
            self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the process, and its group, to end."""
        self._stopping = self._stopping or "Stopped"
        self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its group."""
        if self._process is not None and self.running:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                return

    def _ended(self, code: int) -> None:
        name = signal_name(-code)
        if name is None and code < 0:
            # A real-time signal has no name.
            code = SIGNAL_BASE - code
        reason = "Completed" if code == 0 else "Error"
        if self._stopping and code != 0:
            reason = self._stopping
        self._update(exit_code=None if name else code, signal=name, reason=reason, finished_at=_now())
        self.status = judged_by_exit_code(self.status, self._codes)

    def _update(self, **changes: object) -> None:
        self.status = self.status.model_copy(update=changes)


def _now() -> datetime:
    return datetime.now(timezone.utc)
