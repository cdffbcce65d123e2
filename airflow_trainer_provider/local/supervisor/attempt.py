"""One attempt at a job: start all replicas, wait until the outcome is decided, end the rest."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_trainer_provider.job.diagnosis.causes import PERMANENT_EXIT_CODE
from airflow_trainer_provider.job.plan.framework import Addresses
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.references import expand
from airflow_trainer_provider.job.status import JobPhase, ReplicaStatus
from airflow_trainer_provider.local.environment import replica_environment
from airflow_trainer_provider.local.ports import reserved_addresses
from airflow_trainer_provider.local.processes import end_all, processes_of, send
from airflow_trainer_provider.local.run_folder import AttemptFolders, JobRecord, RunFolder
from airflow_trainer_provider.local.supervisor.rank_shell import first_exits, wrapped_argv
from airflow_trainer_provider.local.supervisor.replica import ReplicaProcess
from airflow_trainer_provider.local.supervisor.wakeup import Wakeup

#: How often the supervisor checks for a request to cancel, and measures memory, in seconds. The end of a process wakes
#: it at once.
TICK = 0.5


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    :param phase: succeeded, failed or cancelled.
    :param first_failed: the replica that failed first, where one did.
    """

    phase: JobPhase
    reason: str | None = None
    message: str | None = None
    first_failed: str | None = None


class Attempt:
    """One attempt at a job.

    :param job: what to run.
    :param record: what was submitted.
    :param folder: of the job.
    :param number: of the attempt, from 0.
    :param wakeup: ends a wait when something has happened.
    :param interrupted: returns why the attempt has to end early; None while it may continue.
    :param changed: called after each change of a replica.
    """

    def __init__(
        self,
        job: JobPlan,
        record: JobRecord,
        folder: RunFolder,
        number: int,
        wakeup: Wakeup,
        interrupted: Callable[[], Outcome | None],
        changed: Callable[[tuple[ReplicaStatus, ...]], None],
    ) -> None:
        self._job = job
        self._record = record
        self._folder = folder
        self._folders: AttemptFolders = folder.attempt(number)
        self._wakeup = wakeup
        self._interrupted = interrupted
        self._changed = changed
        self._processes = [self._process(replica, restarts=number) for replica in job.replicas]
        self._starts: dict[str, Callable[[ReplicaProcess], None]] = {}
        self._restarts_left = job.spec.elastic.max_restarts if job.spec.elastic else 0

    def prepare(self) -> None:
        """Write the files that the replicas need, before any of them is started.

        :raises OSError: they cannot be written.
        """
        self._folders.create()
        with reserved_addresses(replica.name for replica in self._job.replicas) as addresses:
            for name, content in self._job.framework.files(self._job, addresses).items():
                (self._folders.files / name).write_text(content)
            self._write_function()
            for process in self._processes:
                self._starts[process.replica.name] = self._prepared(process.replica, addresses)

    def run(self) -> Outcome:
        """Start all replicas and run to the end; no process of the job is left afterwards."""
        for process in self._processes:
            self._starts[process.replica.name](process)
        self._report()
        outcome = self._wait()
        self._end()
        outcome = self._settle_elsewhere(outcome)
        self._report()
        return outcome

    def _write_function(self) -> None:
        function = self._job.spec.function
        for name, content in function.files.items() if function else ():
            path = self._folders.function / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")

    def _prepared(self, replica: Replica, addresses: Addresses) -> Callable[[ReplicaProcess], None]:
        log = self._folders.logs / f"{replica.name}.log"
        log.touch()
        if not self._job.framework.role(replica.group).runs_command:
            return ReplicaProcess.started_elsewhere
        env = replica_environment(self._job, replica, addresses, self._folders, self._folder.name, self._record.uid)
        argv = [expand(word, env) for word in wrapped_argv(self._job, replica, self._folders)]
        folder = self._folder.work / (replica.working_dir or "")
        return lambda process: process.start(argv, env, folder, log)

    def _wait(self) -> Outcome:
        while True:
            failed = self._first_failure()
            if failed:
                return Outcome(JobPhase.FAILED, failed.status.reason, failed.status.message, failed.replica.name)
            if not any(process.running for process in self._processes if self._decides(process)):
                return Outcome(JobPhase.SUCCEEDED)
            if interruption := self._interrupted():
                return interruption
            self._wakeup.wait(TICK)
            self._poll()
            for process in self._processes:
                process.enforce_memory_limit()

    def _first_failure(self) -> ReplicaProcess | None:
        failed = [process for process in self._processes if process.status.failed]
        failed.sort(key=lambda process: str(process.status.finished_at))
        for process in failed:
            if self._restarts_left == 0 or process.status.reason == PERMANENT_EXIT_CODE:
                return process
            self._restarts_left -= 1
            self._replace(process)
        return None

    def _replace(self, lost: ReplicaProcess) -> None:
        """Start a lost node of an elastic job again; the other nodes continue and meet it at the rendezvous."""
        # Its children may have outlived it, and would keep training beside the new processes.
        send(processes_of(self._record.uid, lost.replica.name), signal.SIGKILL)
        process = self._process(lost.replica, restarts=lost.status.restarts + 1)
        self._processes[self._processes.index(lost)] = process
        self._starts[lost.replica.name](process)
        self._report()

    def _process(self, replica: Replica, restarts: int) -> ReplicaProcess:
        rank = replica.rank if self._job.one_rank_each else None
        return ReplicaProcess(replica, rank, restarts, self._job.spec.run_policy.exit_codes)

    def _decides(self, process: ReplicaProcess) -> bool:
        return self._job.framework.role(process.replica.group).waited_for

    def _poll(self) -> None:
        ended = [process for process in self._processes if process.poll()]
        if ended:
            self._report()

    def _end(self) -> None:
        """End the processes that still run: ask them to, wait for the grace period, kill them."""
        deadline = time.monotonic() + self._job.spec.run_policy.grace_period_seconds
        here = [process for process in self._processes if process.started_here]
        for process in here:
            process.stop()
        self._wait_while(lambda: any(process.running for process in here), deadline)
        for process in here:
            process.signal(signal.SIGKILL)
        # Children that outlived their replica, in sessions of their own.
        send(processes_of(self._record.uid), signal.SIGTERM)
        self._wait_while(lambda: bool(processes_of(self._record.uid)), deadline)
        end_all(self._record.uid)
        self._wait_while(lambda: any(process.running for process in here), math.inf)

    def _wait_while(self, condition: Callable[[], bool], end: float) -> None:
        while condition() and (left := end - time.monotonic()) > 0:
            self._wakeup.wait(min(TICK, left))
            self._poll()

    def _settle_elsewhere(self, outcome: Outcome) -> Outcome:
        """Record how replicas ended that another replica's launcher started, and which of them failed first."""
        elsewhere = [process for process in self._processes if process.running]
        exits = first_exits(self._folders.exits)
        for process in elsewhere:
            code = exits.get(process.replica.name)
            process.ended_elsewhere(0 if outcome.phase is JobPhase.SUCCEEDED else code)
        if outcome.first_failed and exits:
            first = next(iter(exits))
            status = next(process.status for process in self._processes if process.replica.name == first)
            return Outcome(outcome.phase, status.reason, status.message, first)
        return outcome

    def _report(self) -> None:
        self._changed(tuple(process.status for process in self._processes))
