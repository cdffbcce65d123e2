"""The policies for a job of the command line: those of the Airflow that is configured on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_trainer_provider.operators.asked import Governed
from airflow_trainer_provider.policies.library import PolicyFile, load_policies

_OPTION = "policies_folder"
_VARIABLE = "AIRFLOW__TRAINER__POLICIES_FOLDER"


def governed(namespace: str | None) -> Governed:
    """The policies for a job without a DAG: policies that select DAGs or tags do not apply to it, as in a cluster.

    :param namespace: where the job would run in a cluster; None on this machine.
    :raises SpecError: a policy is wrong, or an option of ``[trainer]``.
    """
    return Governed(_policies(), "", (), lambda: namespace)


def _policies() -> list[PolicyFile]:
    if not _may_have_policies():
        return []
    from airflow_trainer_provider.hooks.settings import load_settings

    return load_policies(load_settings().policies_folder)


def _may_have_policies() -> bool:
    """Whether Airflow's configuration may name a folder. Airflow is not imported: the import writes a configuration
    where there is none.
    """
    if _VARIABLE in os.environ:
        return bool(os.environ[_VARIABLE])
    file = os.environ.get("AIRFLOW_CONFIG") or f"{os.environ.get('AIRFLOW_HOME', '~/airflow')}/airflow.cfg"
    try:
        return _OPTION in Path(os.path.expandvars(file)).expanduser().read_text(errors="replace")
    except (OSError, RuntimeError):
        # There is no such file, or no home folder.
        return False
