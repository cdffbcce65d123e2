"""Gives each node of a launcher's processes its own log, and its own exit code.

mpirun starts all ranks from one replica, the launcher, and mixes their output. On this machine a few lines of
shell around each rank sort it by node, so that ``worker-1`` has its log here as it has on a cluster.
"""

from __future__ import annotations

from pathlib import Path

from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.local.run_folder import AttemptFolders

_SCRIPT = """\
rank=${rank_variable}
node=$((rank / {slots}))
"$@" >>"{logs}/worker-$node.log" 2>&1
code=$?
if [ "$code" -ne 0 ]; then
    echo "process rank $rank with exit code $code" >>"{logs}/worker-$node.log"
    [ -e "{exits}/worker-$node" ] || echo "$code" >"{exits}/worker-$node"
fi
exit "$code"
"""


def wrapped_argv(job: Job, replica: Replica, folders: AttemptFolders) -> tuple[str, ...]:
    """The replica's command line, with the shell around each rank where its launcher starts other nodes' ranks.

    :param job: the job.
    :param replica: the replica.
    :param folders: of this attempt; the script is written there.
    """
    variable = job.framework.rank_variable
    if variable is None or not replica.launcher:
        return replica.argv
    script = folders.files / "rank.sh"
    slots = job.spec.num_proc_per_node
    script.write_text(_SCRIPT.format(rank_variable=variable, slots=slots, logs=folders.logs, exits=folders.exits))
    return (*replica.launcher, "sh", str(script), *replica.command, *replica.args)


def first_exits(exits: Path) -> dict[str, int]:
    """Nodes whose processes failed, in the order in which they did.

    :param exits: the folder that the script notes them in.
    :return: replica name -> exit code.
    """
    files = sorted(exits.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    return {file.name: int(file.read_text() or 1) for file in files}
