"""The environment and the command line of a replica on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_trainer_provider.job.plan.framework import Addresses
from airflow_trainer_provider.job.plan.function import function_environment
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.references import expand, in_order
from airflow_trainer_provider.job.result import RESULT_BYTES_VARIABLE, RESULT_PATH_VARIABLE, VALUE_LIMIT_BYTES
from airflow_trainer_provider.local.processes import REPLICA_VARIABLE, UID_VARIABLE
from airflow_trainer_provider.local.run_folder import AttemptFolders

#: Airflow's own settings hold its secrets: the database's password, the Fernet key, connections, tokens.
_AIRFLOW = re.compile(r"_*AIRFLOW_")


def inherited_environment() -> dict[str, str]:
    """The part of the worker's environment that a job's processes get: everything except Airflow's own settings.

    The folder with the programs of Airflow's own interpreter (python, torchrun, mpirun) comes first in ``PATH``.
    """
    env = {name: value for name, value in os.environ.items() if not _AIRFLOW.match(name)}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    return env


def replica_environment(
    job: JobPlan, replica: Replica, addresses: Addresses, folders: AttemptFolders, name: str, uid: str
) -> dict[str, str]:
    """All variables of one replica. The user's own win over the framework's.

    :param job: the job.
    :param replica: the replica.
    :param addresses: where the replicas reach each other.
    :param folders: of this attempt.
    :param name: the job's name.
    :param uid: the job's uid.
    """
    provided = {
        **inherited_environment(),
        # Without it, Python keeps lines in a buffer, and a killed process never writes them.
        "PYTHONUNBUFFERED": "1",
        # Without it, a program that sets its process title overwrites the environment, which names the process's job.
        "SPT_NOENV": "1",
        **job.framework.environment(job, replica, addresses),
        "TRAINER_JOB_NAME": name,
        UID_VARIABLE: uid,
        REPLICA_VARIABLE: replica.name,
        "TRAINER_ATTEMPT": folders.path.name,
        "TRAINER_FILES": str(folders.files),
        **function_environment(job, str(folders.function)),
        RESULT_PATH_VARIABLE: str(folders.results / replica.name),
        RESULT_BYTES_VARIABLE: str(VALUE_LIMIT_BYTES),
    }
    return with_variables(provided, replica.texts)


def with_variables(provided: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Add the user's variables to an environment, with the references in their values expanded.

    :param provided: the environment.
    :param given: the user's variables, which may refer to each other and to those of the environment.
    """
    env = dict(provided)
    for entry in in_order([{"name": name, "value": value} for name, value in given.items()]):
        env[entry["name"]] = expand(entry["value"], env)
    return env
