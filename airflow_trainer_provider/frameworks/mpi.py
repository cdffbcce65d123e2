"""MPI: mpirun on the launcher starts the processes on the workers' slots.

Open MPI's options: https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_trainer_provider.frameworks.base import Addresses, Command, Framework, Role
from airflow_trainer_provider.frameworks.layout import Job, Replica

_HOSTFILE = "hostfile"


def _environment(job: Job, replica: Replica, addresses: Addresses) -> dict[str, str]:
    # mpirun refuses to run as root, which containers do by default, unless it is told twice.
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _files(job: Job, addresses: Addresses) -> Mapping[str, str]:
    slots: dict[str, int] = {}
    for worker in job.group("worker"):
        host = addresses[worker.name].host
        slots[host] = slots.get(host, 0) + int(job.spec.num_proc_per_node)
    return {_HOSTFILE: "".join(f"{host} slots={count}\n" for host, count in slots.items())}


def _launch(command: Command, job: Job) -> tuple[Command, Command]:
    # Open MPI finds the number of processes in the hostfile's slots; they may be more than there are cores.
    hostfile = f"$(TRAINER_FILES)/{_HOSTFILE}"
    return ("mpirun", "--hostfile", hostfile, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"), command


FRAMEWORK = Framework(
    name="mpi",
    title="MPI",
    roles=(Role("launcher", most=1), Role("worker", waited_for=False, runs_command=False)),
    automatic="launcher",
    automatic_trains=False,
    automatic_required="mpirun runs there and starts the processes on the workers.",
    environment=_environment,
    launch=_launch,
    launchers=frozenset({"mpirun", "mpiexec", "prterun"}),
    files=_files,
    processes_per_node=True,
    rank_variable="OMPI_COMM_WORLD_RANK",
    # Open MPI 4 writes [[50315,1],0] where Open MPI 5 writes [prterun-node-71@1,0].
    failed_rank=re.compile(
        r"(?:Process name: \[(?:\[[^\]]*\]|[^,\]]+),\s*|process rank "
        r"|MPI_ABORT was invoked on rank (?=\d+ in communicator MPI_COMM_WORLD))(?P<rank>\d+)"
    ),
)
