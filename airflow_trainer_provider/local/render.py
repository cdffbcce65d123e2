"""The job as it would run on this machine, as text for people."""

from __future__ import annotations

import shlex

import yaml

from airflow_trainer_provider.frameworks.base import Address
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.redaction import redacted
from airflow_trainer_provider.local.ports import LOOPBACK


def render(job: Job, name: str, location: str) -> str:
    """Everything that a submit would start. Free ports are taken then, so text holds their places here.

    :param job: the job.
    :param name: its name.
    :param location: the folder its own folder will be made in.
    :return: YAML.
    """
    addresses = {replica.name: Address(LOOPBACK, f"<port of {replica.name}>") for replica in job.replicas}
    replicas = []
    for replica in job.replicas:
        row: dict[str, object] = {"name": replica.name, "rank": replica.rank}
        if replica.argv:
            row["command"] = shlex.join(replica.argv)
        row["env"] = redacted({**job.framework.environment(job, replica, addresses), **replica.env})
        if replica.working_dir:
            row["working_dir"] = replica.working_dir
        if replica.resources:
            row["resources"] = replica.resources.model_dump(exclude_none=True)
        replicas.append(row)
    document = {
        "job": name,
        "backend": "local",
        "framework": job.framework.name,
        "folder": f"{location}/{name}",
        "run_policy": job.spec.run_policy.model_dump(exclude_none=True),
        "replicas": replicas,
    }
    files = dict(job.framework.files(job, addresses))
    if files:
        document["files"] = files
    text: str = yaml.safe_dump(document, sort_keys=False, width=120)
    return text
