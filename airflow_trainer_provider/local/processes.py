"""Finds and ends every process of a job, whatever its parent process is now."""

from __future__ import annotations

import signal

import psutil

#: Every process of a job carries the job's uid in this variable, which children inherit.
UID_VARIABLE = "TRAINER_JOB_UID"
#: Every process of a job carries the name of its replica in this variable.
REPLICA_VARIABLE = "TRAINER_REPLICA"


def processes_of(uid: str, replica: str | None = None) -> list[psutil.Process]:
    """The living processes of a job, without its supervisor.

    :param uid: the job's uid.
    :param replica: only the processes of this replica; None for all.
    """
    wanted = {UID_VARIABLE: uid} | ({REPLICA_VARIABLE: replica} if replica else {})
    found = []
    for process in psutil.process_iter():
        try:
            if wanted.items() <= process.environ().items() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            # It has ended meanwhile, or belongs to another user.
            continue
    return found


def send(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes that may have ended already."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue


def end_all(uid: str) -> None:
    """Kill the remaining processes of a job, and those that they start meanwhile.

    :param uid: the job's uid.
    """
    while left := processes_of(uid):
        send(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=1)


def resident_bytes(pid: int) -> int:
    """How many bytes of memory a process and its descendants hold; 0 where the process has ended.

    :param pid: of the process.
    """
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for process in family:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total
