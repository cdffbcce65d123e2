"""The folder for a job's checkpoints on this machine."""

from __future__ import annotations

from pathlib import Path

from airflow_trainer_provider.errors import SubmitError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.checkpoint import with_folder
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.references import literal


def checkpoint_folder(job: JobPlan, identity: Identity) -> Path | None:
    """The folder for the job's checkpoints; None where it has none.

    :param job: for this machine.
    :param identity: the task.
    """
    given = job.spec.checkpoint
    if given is None:
        return None
    return Path(given.host_path or "", given.path or "", identity.folder_name(given.scope))


def with_checkpoint_folder(job: JobPlan, identity: Identity) -> JobPlan:
    """The job, with the path of the folder in the environment of each replica.

    :param job: for this machine.
    :param identity: the task.
    """
    folder = checkpoint_folder(job, identity)
    return job if folder is None else with_folder(job, literal(str(folder)))


def make_checkpoint_folder(job: JobPlan, identity: Identity) -> None:
    """Create the folder, if the job has one.

    :param job: for this machine.
    :param identity: the task.
    :raises SubmitError: it cannot be made.
    """
    folder = checkpoint_folder(job, identity)
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SubmitError(f"{folder} cannot be made ({error}); correct checkpoint.host_path.") from error
