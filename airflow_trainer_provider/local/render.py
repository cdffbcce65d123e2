"""Renders a job as it would run on this machine, as text for users."""

from __future__ import annotations

import shlex

import yaml

from airflow_trainer_provider.job.plan.framework import Address
from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.job.plan.tools import filled, url_of
from airflow_trainer_provider.local.ports import LOOPBACK
from airflow_trainer_provider.text.redaction import redacted


def render(job: JobPlan, name: str, location: str) -> str:
    """Everything that a submit would start. The ports are only chosen at the submit: here they are placeholders.

    :param job: the job.
    :param name: its name.
    :param location: the folder in which the job's folder will be created.
    :return: YAML, without secrets.
    """
    addresses = {replica.name: Address(LOOPBACK, f"<port of {replica.name}>") for replica in job.replicas}
    replicas = []
    for replica in job.replicas:
        row: dict[str, object] = {"name": replica.name, "rank": replica.rank}
        if replica.argv:
            row["command"] = shlex.join(redacted(list(replica.argv)))
        row["env"] = {**job.framework.environment(job, replica, addresses), **_variables(replica)}
        if replica.working_dir:
            row["working_dir"] = replica.working_dir
        if replica.resources:
            row["resources"] = replica.resources.model_dump(exclude_defaults=True)
        replicas.append(row)
    document = {
        "job": name,
        "backend": "local",
        "framework": job.framework.name,
        "folder": f"{location}/{name}",
        "run_policy": job.spec.run_policy.model_dump(exclude_none=True, exclude={"clean_pods"}),
        "replicas": replicas,
    }
    files = dict(job.framework.files(job, addresses))
    if files:
        document["files"] = files
    if job.spec.tools:
        document["tools"] = tool_urls(job, name)
    text: str = yaml.safe_dump(redacted(document), sort_keys=False, width=120)
    return text


def tool_urls(job: JobPlan, name: str) -> dict[str, str]:
    """The addresses of a job's tools on this machine: name -> URL.

    :param job: the job.
    :param name: its name.
    """
    return {tool: url_of(filled(each, name, ""), "localhost") for tool, each in job.spec.tools.items()}


def _variables(replica: Replica) -> dict[str, object]:
    return {
        name: value if isinstance(value, str) else value.model_dump(exclude_none=True)
        for name, value in replica.env.items()
    }
