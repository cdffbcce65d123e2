"""Sees to the lines and the exit codes of processes that a launcher starts.

mpirun starts all ranks from one replica and mixes their output; here a few lines of shell around each rank sort it by
node, so that ``worker-1`` has its log as it has on a cluster. Paddle's launcher shows the lines of one of its processes
only; here each writes to its node's log itself. And which process failed first is known from the process, not from the
launcher, which may notice seconds later.
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
    # In an elastic job a process that fails is replaced, and does not decide.
    if variable is None or not replica.launcher or job.spec.elastic:
        return replica.argv
    elsewhere = [role.name for role in job.framework.roles if not role.runs_command]
    owner = f"{elsewhere[0]}-$((rank / {job.spec.num_proc_per_node}))" if elsewhere else replica.name
    script = folders.files / f"{replica.name}.sh"
    script.write_text(_SCRIPT.format(rank_variable=variable, replica=owner, logs=folders.logs, exits=folders.exits))
    # As the user wrote it: the launcher may have wanted it without the interpreter, which the shell needs.
    _, command = job.source(replica, "command")
    return (*replica.launcher, "sh", str(script), *command, *replica.args)


def leader_of(job: JobPlan) -> Replica:
    """The replica whose log has the lines of rank 0: mpirun's own where the command starts it, as these are not sorted.

    :param job: the job.
    """
    return tool_replica(job) if job.leader.launcher else job.leader


def first_exits(exits: Path) -> dict[str, int]:
    """Nodes whose processes failed, in the order in which they did.

    :param exits: the folder that the script notes them in.
    :return: replica name -> exit code.
    """
    files = sorted(exits.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    return {file.name: int(file.read_text() or 1) for file in files}
