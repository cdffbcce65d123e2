"""The environment and the command line of a replica on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_trainer_provider.frameworks.base import Addresses
from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.job.result import RESULT_PATH_VARIABLE
from airflow_trainer_provider.local.processes import REPLICA_VARIABLE, UID_VARIABLE
from airflow_trainer_provider.local.run_folder import AttemptFolders

#: Airflow's own settings hold its secrets: the database's password, the Fernet key, connections, tokens.
_AIRFLOW = re.compile(r"_*AIRFLOW_")
_REFERENCE = re.compile(r"\$(\$\([A-Za-z_][A-Za-z0-9_]*\)|\((?P<name>[A-Za-z_][A-Za-z0-9_]*)\))")


def inherited_environment() -> dict[str, str]:
    """What a job's processes see of the worker's environment: all but Airflow's own settings.

    Programs of the interpreter that runs Airflow (python, torchrun, mpirun) come first in the path.
    """
    env = {name: value for name, value in os.environ.items() if not _AIRFLOW.match(name)}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    return env


def replica_environment(
    job: Job, replica: Replica, addresses: Addresses, folders: AttemptFolders, name: str, uid: str
) -> dict[str, str]:
    """All variables of one replica. The user's own win over the framework's.

    :param job: the job.
    :param replica: the replica.
    :param addresses: where the replicas reach each other.
    :param folders: of this attempt.
    :param name: the job's name.
    :param uid: the job's uid.
    """
    return {
        **inherited_environment(),
        # Without it Python holds lines back until its buffer is full, and a killed process never writes them.
        "PYTHONUNBUFFERED": "1",
        # A program that sets its process title would otherwise write it over the environment that tells its job.
        "SPT_NOENV": "1",
        **job.framework.environment(job, replica, addresses),
        **replica.env,
        "TRAINER_JOB_NAME": name,
        UID_VARIABLE: uid,
        REPLICA_VARIABLE: replica.name,
        "TRAINER_ATTEMPT": folders.path.name,
        "TRAINER_FILES": str(folders.files),
        RESULT_PATH_VARIABLE: str(folders.results / replica.name),
    }


def expand(words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Put variables in for ``$(NAME)``, as Kubernetes does in a container's command.

    :param words: the command line. ``$$(NAME)`` stays as ``$(NAME)``.
    :param env: the variables; a reference to any other stays as it is.
    """

    def value(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[1]
        return env.get(match["name"], match[0])

    return [_REFERENCE.sub(value, word) for word in words]
