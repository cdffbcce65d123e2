"""Refuses what plain Kubernetes cannot express."""

from __future__ import annotations

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.kinds.native_blocks import blocks
from airflow_trainer_provider.kinds.pod import TRAINING_CONTAINER, check_images

BACKEND = "native"


def check(job: Job) -> None:
    """Refuse what Jobs and Services alone cannot do.

    :param job: the job.
    :raises SpecError: naming the field, its value and the way out.
    """
    if job.spec.runtime_ref is not None:
        allowed = "no value: plain Kubernetes has no runtimes"
        fix = "Drop runtime_ref, or use backend='trainer'."
        raise UnsupportedField(BACKEND, Problem("runtime_ref", job.spec.runtime_ref, allowed, fix))
    ttl = job.spec.run_policy.ttl_seconds_after_finished
    if ttl is not None:
        allowed = "no value: nothing in plain Kubernetes deletes a Service after a while, and it owns the rest"
        fix = "Drop it, or set on_finish_action='delete'."
        raise UnsupportedField(BACKEND, Problem("run_policy.ttl_seconds_after_finished", ttl, allowed, fix))
    check_images(job, TRAINING_CONTAINER)
    _check_queue(job)
    _check_pod_template(job)
    for replica in job.replicas:
        if not job.framework.role(replica.group).runs_command and replica.working_dir != job.leader.working_dir:
            field, value = job.source(replica, "working_dir")
            allowed = f"that of the {job.leader.group}, which starts the processes there"
            raise UnsupportedField(BACKEND, Problem(field, value, allowed, "Set working_dir of the job."))


def _check_queue(job: Job) -> None:
    if job.spec.queue_name is None:
        return
    count = len(blocks(job))
    if count == 1:
        return
    allowed = (
        f"no value where the replicas need several Jobs ({count} here): a queue admits them one by one, "
        "and those that got room would wait for the rest"
    )
    fix = (
        "Use backend='trainer' or 'training-operator', whose jobs a queue admits as a whole; or drop queue_name; or "
        "give all replicas equal settings, which puts them into one Job (not under Paddle, nor with chief, ps, "
        "evaluator or launcher)."
    )
    raise UnsupportedField(BACKEND, Problem("queue_name", job.spec.queue_name, allowed, fix))


def _check_pod_template(job: Job) -> None:
    spec = (job.spec.pod_template or {}).get("spec") or {}
    for field in ("hostname", "subdomain", "setHostnameAsFQDN"):
        if field in spec:
            allowed = "no value: the replicas find each other by the names that this backend gives them"
            problem = Problem(f"pod_template.spec.{field}", spec[field], allowed, f"Drop {field}.")
            raise UnsupportedField(BACKEND, problem)
