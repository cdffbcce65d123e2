"""Collects the lines and the exit codes of processes that a launcher starts, with a shell script around each process.

mpirun starts all ranks from one replica and mixes their output. The script sorts the output by node, so that
``worker-1`` has its own log, as on a cluster. Paddle's launcher shows the lines of only one of its processes. With the
script, each process writes to the log of its node. The script also records which process failed first: the launcher may
notice it seconds later.
"""

from __future__ import annotations

from pathlib import Path

from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.tools import tool_replica
from airflow_trainer_provider.local.run_folder import AttemptFolders

_SCRIPT = """\
rank=${rank_variable}
replica={replica}
"$@" >>"{logs}/$replica.log" 2>&1
code=$?
if [ "$code" -ne 0 ]; then
    echo "process rank $rank with exit code $code" >>"{logs}/$replica.log"
    [ -e "{exits}/$replica" ] || echo "$code" >"{exits}/$replica"
fi
exit "$code"
"""


def wrapped_argv(job: JobPlan, replica: Replica, folders: AttemptFolders) -> tuple[str, ...]:
    """The replica's command line, with the shell around each rank where the framework's launcher needs it.

    :param job: the job.
    :param replica: the replica.
    :param folders: of this attempt; the script is written there.
    """
    variable = job.framework.rank_variable
    # In an elastic job a process that fails is replaced, and does not decide the outcome.
    if variable is None or not replica.launcher or job.spec.elastic:
        return replica.argv
    elsewhere = [role.name for role in job.framework.roles if not role.runs_command]
    owner = f"{elsewhere[0]}-$((rank / {job.spec.num_proc_per_node}))" if elsewhere else replica.name
    script = folders.files / f"{replica.name}.sh"
    script.write_text(_SCRIPT.format(rank_variable=variable, replica=owner, logs=folders.logs, exits=folders.exits))
    # The command as the user wrote it: the launcher may take it without the interpreter, and the shell needs that.
    _, command = job.source(replica, "command")
    return (*replica.launcher, "sh", str(script), *command, *replica.args)


def leader_of(job: JobPlan) -> Replica:
    """The replica whose log has the lines of rank 0.

    Where the user's command itself starts mpirun, the lines are not sorted by node: they are in the log of the leader.

    :param job: the job.
    """
    return tool_replica(job) if job.leader.launcher else job.leader


def first_exits(exits: Path) -> dict[str, int]:
    """Nodes whose processes failed, in the order of the failures.

    :param exits: the folder in which the script writes the exit codes.
    :return: replica name -> exit code.
    """
    files = sorted(exits.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    return {file.name: int(file.read_text() or 1) for file in files}
