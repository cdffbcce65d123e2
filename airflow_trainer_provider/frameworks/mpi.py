"""MPI: mpirun on the launcher starts the processes on the workers' slots.

Open MPI's options: https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_trainer_provider.job.plan.framework import Addresses, Framework, Role
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.programs import Command
from airflow_trainer_provider.spec.running.launcher import OPEN_MPI

_HOSTFILE = "hostfile"


def _environment(job: JobPlan, replica: Replica, addresses: Addresses) -> dict[str, str]:
    if job.spec.mpi.implementation != OPEN_MPI:
        return {}
    # mpirun refuses to run as root, which containers do by default, unless two variables allow it.
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _files(job: JobPlan, addresses: Addresses) -> Mapping[str, str]:
    slots: dict[str, int] = {}
    for node in job.nodes:
        host = addresses[node.name].host
        slots[host] = slots.get(host, 0) + int(job.spec.num_proc_per_node)
    return {_HOSTFILE: "".join(f"{host} slots={count}\n" for host, count in slots.items())}


def _launch(command: Command, job: JobPlan) -> tuple[Command, Command]:
    if job.spec.mpi.implementation != OPEN_MPI:
        # Hydra's mpirun reads the path of the hostfile from a variable that the controller sets.
        return ("mpirun",), command
    # Open MPI takes the number of processes from the slots in the hostfile; there may be more slots than cores.
    hostfile = f"$(TRAINER_FILES)/{_HOSTFILE}"
    return ("mpirun", "--hostfile", hostfile, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"), command


FRAMEWORK = Framework(
    name="mpi",
    title="MPI",
    roles=(Role("launcher", most=1), Role("worker", waited_for=False, runs_command=False)),
    automatic="launcher",
    automatic_trains=False,
    automatic_required="mpirun runs there and starts the processes on the workers",
    environment=_environment,
    launch=_launch,
    launchers=frozenset({"mpirun", "mpiexec", "prterun"}),
    files=_files,
    processes_per_node=True,
    rank_variable="OMPI_COMM_WORLD_RANK",
    # The variable of Hydra, which starts the ranks of Intel MPI and of MPICH.
    other_rank_variables=("PMI_RANK",),
    # The variables of Open MPI 4 and 5.
    remote_shell_variables=("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"),
    # A process name is [[50315,1],0] in Open MPI 4, and [prterun-node-71@1,0] in Open MPI 5.
    failed_rank=re.compile(
        r"(?:Process name: \[(?:\[[^\]]*\]|[^,\]]+),\s*|process rank "
        r"|MPI_ABORT was invoked on rank (?=\d+ in communicator MPI_COMM_WORLD))(?P<rank>\d+)"
    ),
)
