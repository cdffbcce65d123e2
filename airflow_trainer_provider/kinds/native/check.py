"""Refuses what plain Kubernetes cannot express."""

from __future__ import annotations

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.kept import check_clean_pods
from airflow_trainer_provider.kinds.native.blocks import blocks
from airflow_trainer_provider.kinds.objects.mpi_launch import check_settings
from airflow_trainer_provider.kinds.objects.pod_check import check_containers
from airflow_trainer_provider.kinds.objects.scheduling.gang import KAI, check_gang, refuse_schedulers
from airflow_trainer_provider.spec.misplaced import TRAINING_CONTAINER

BACKEND = "native"


def check(job: JobPlan) -> None:
    """Refuse settings that Jobs and Services alone cannot express.

    :param job: the job.
    :raises SpecError: naming the field, its value and the way out.
    """
    if job.spec.runtime_ref is not None:
        allowed = "no value: plain Kubernetes has no runtimes"
        fix = "Drop runtime_ref, or use backend='trainer'."
        raise UnsupportedField(BACKEND, Problem("runtime_ref", job.spec.runtime_name, allowed, fix))
    check_clean_pods(BACKEND, job)
    check_settings(BACKEND, job, ("is_node",))
    check_containers(job, TRAINING_CONTAINER)
    _check_queue(job)
    check_gang(BACKEND, job, len(job.replicas), {})
    allowed = (
        "coscheduling or volcano: KAI groups the pods of each Job of this backend by themselves, and of no other kind"
    )
    refuse_schedulers(
        BACKEND, job, (KAI,), allowed, "Use backend='trainer' or 'training-operator', or another scheduler."
    )
    _check_pod_template(job)
    for replica in job.replicas:
        if not job.framework.role(replica.group).runs_command and replica.working_dir != job.leader.working_dir:
            field, value = job.source(replica, "working_dir")
            allowed = f"that of the {job.leader.group}, which starts the processes there"
            raise UnsupportedField(BACKEND, Problem(field, value, allowed, "Set working_dir of the job."))


def _check_queue(job: JobPlan) -> None:
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
        "Use backend='trainer' or 'training-operator', whose jobs a queue admits as a whole; or drop "
        "scheduling.queue_name, and have the pods placed together with scheduling.gang; or give all replicas equal "
        "settings, which puts them into one Job (not under Paddle, nor with chief, ps, evaluator or launcher)."
    )
    raise UnsupportedField(BACKEND, Problem("scheduling.queue_name", job.spec.queue_name, allowed, fix))


def _check_pod_template(job: JobPlan) -> None:
    spec = (job.spec.pod_template or {}).get("spec") or {}
    for field in ("hostname", "subdomain", "setHostnameAsFQDN"):
        if field in spec:
            allowed = "no value: the replicas find each other by the names that this backend gives them"
            problem = Problem(f"pod_template.spec.{field}", "a value", allowed, f"Drop {field}.")
            raise UnsupportedField(BACKEND, problem)
