"""Gives the replicas of a job access to the folder for its checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.spec import Volume
from airflow_trainer_provider.spec.volumes import RESERVED_NAME

#: The variable that holds the folder, in each replica.
DIR_VARIABLE = "TRAINER_CHECKPOINT_DIR"
#: The path at which pods in a cluster mount the folder.
MOUNT_PATH = "/mnt/trainer-checkpoints"
VOLUME_NAME = f"{RESERVED_NAME}checkpoints"


def mounted(job: JobPlan, folder: str) -> JobPlan:
    """The job with the folder mounted into each replica, and named in its environment.

    :param job: a job with checkpoints, for a cluster.
    :param folder: the name of the folder for the scope of the checkpoints.
    """
    given = job.spec.checkpoint
    assert given is not None, "only a job with checkpoints has a folder for them"
    below = PurePosixPath(given.path or "", folder)
    source = {given.source: getattr(given, given.source)}
    volume = Volume(mount_path=MOUNT_PATH, sub_path=str(below), **source).model_copy(update={"name": VOLUME_NAME})
    return with_folder(job, MOUNT_PATH, (volume,))


def with_folder(job: JobPlan, folder: str, volumes: tuple[Volume, ...] = ()) -> JobPlan:
    """The job with the folder named in the environment of each replica.

    :param job: the job.
    :param folder: the path by which the replicas find it.
    :param volumes: the volumes that each replica mounts for it.
    """

    def placed(replica: Replica) -> Replica:
        return replace(replica, env={**replica.env, DIR_VARIABLE: folder}, volumes=(*replica.volumes, *volumes))

    return replace(job, replicas=tuple(map(placed, job.replicas)))
