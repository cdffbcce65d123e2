"""The common interface of all frameworks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_trainer_provider.job.plan.programs import Command

if TYPE_CHECKING:
    from airflow_trainer_provider.job.plan.plan import JobPlan, Replica


@dataclass(frozen=True)
class Address:
    """The address at which the other replicas reach a replica.

    :param host: host name or IP address.
    :param port: the port that the framework's rendezvous may use there; a string is a placeholder for a port that is
        not known yet.
    """

    host: str
    port: int | str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


#: Replica name (``worker-1``) -> its address.
Addresses = Mapping[str, Address]


@dataclass(frozen=True)
class Role:
    """A kind of replica.

    :param name: as the user writes it in ``replicas``.
    :param most: how many there can be at most; None means any number.
    :param waited_for: whether the job succeeds only once the replicas of this role have succeeded. When all replicas
        that are waited for have succeeded, the others are ended.
    :param runs_command: False where another role's launcher starts the processes there.
    """

    name: str
    most: int | None = None
    waited_for: bool = True
    runs_command: bool = True


def no_launcher(command: Command, job: JobPlan) -> tuple[Command, Command]:
    """Run the command as it is."""
    return (), command


def no_files(job: JobPlan, addresses: Addresses) -> Mapping[str, str]:
    """Need no files."""
    return {}


@dataclass(frozen=True)
class Framework:
    """What one framework defines for its jobs.

    :param name: as in ``TrainJobSpec.framework``.
    :param title: its name as people write it.
    :param roles: in the order of their ranks.
    :param automatic: the role of which a job has one replica by default; None where a job has only workers by default.
    :param automatic_trains: whether that replica counts as one of ``num_nodes``.
    :param automatic_required: None, or why a job cannot exist without that replica.
    :param environment: (job, replica, addresses) -> the variables by which this replica finds the others.
    :param launch: (command, job) -> the launcher's words, and the command in the form that the launcher expects.
    :param launchers: the programs and ``python -m`` modules that are the framework's launcher.
    :param files: (job, addresses) -> files the replicas read, by name, in the folder ``$TRAINER_FILES``.
    :param processes_per_node: whether the launcher can start several processes on a node.
    :param processes_by_keyword: whether the launcher also accepts ``auto``, ``cpu`` and ``gpu``.
    :param processes_variable: the variable that holds the number of processes; None where a file holds it.
    :param elastic: whether the number of nodes may vary.
    :param rank_variable: the variable that holds a process's rank, where the launcher does not handle the lines and the
        exit codes of its processes well enough.
    :param other_rank_variables: the variables that hold the rank under another launcher, or without a launcher.
    :param remote_shell_variables: the variables that name the program, such as ssh, with which its launcher starts
        processes on other hosts.
    :param refused_roles: roles that other tools have for the framework, each with the way out.
    :param failed_rank: finds the rank that failed first in a launcher's own log; group ``rank`` holds it.
    :param launcher_traceback: matches the last line of a traceback that is the launcher's, not the user's.
    """

    name: str
    title: str
    roles: tuple[Role, ...]
    environment: Callable[[JobPlan, Replica, Addresses], dict[str, str]]
    automatic: str | None = None
    automatic_trains: bool = True
    automatic_required: str | None = None
    launch: Callable[[Command, JobPlan], tuple[Command, Command]] = no_launcher
    launchers: frozenset[str] = frozenset()
    files: Callable[[JobPlan, Addresses], Mapping[str, str]] = no_files
    processes_per_node: bool = False
    processes_by_keyword: bool = False
    processes_variable: str | None = None
    elastic: bool = False
    rank_variable: str | None = None
    other_rank_variables: tuple[str, ...] = ()
    remote_shell_variables: tuple[str, ...] = ()
    refused_roles: Mapping[str, str] = field(default_factory=dict)
    failed_rank: re.Pattern[str] | None = None
    launcher_traceback: re.Pattern[str] | None = None

    def role(self, name: str) -> Role:
        """The role of that name, which has to exist."""
        return next(role for role in self.roles if role.name == name)

    def trains(self, role: str) -> bool:
        """Whether replicas of that role are nodes of the training; a launcher only starts processes on the others."""
        return self.automatic_trains or role != self.automatic
