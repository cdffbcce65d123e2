"""Checks whether the pods of a job are placed together, where that matters."""

from __future__ import annotations

from airflow_trainer_provider.job.plan.plan import JobPlan, Plan


def placed_apart(job: Plan) -> str | None:
    """A warning about a job whose pods are each placed on their own, although several need accelerators.

    :param job: the job.
    :return: the warning; None where nothing is known to be wrong. A user's own scheduler, runtime or manifest may place
        the pods together.
    """
    if not isinstance(job, JobPlan) or _is_cared_for(job):
        return None
    count = sum(replica.resources is not None and bool(replica.resources.gpu) for replica in job.replicas)
    if count < 2:
        return None
    return (
        f"{count} pods of the job ask for accelerators, and nothing places them together: where several jobs find room "
        "for some of their pods only, all of them wait for the rest. Set scheduling.gang where the cluster has a gang "
        "scheduler, or scheduling.queue_name where it has Kueue."
    )


def _is_cared_for(job: JobPlan) -> bool:
    spec = job.spec
    template = (spec.pod_template or {}).get("spec") or {}
    named = any(part.scheduling and part.scheduling.scheduler_name for _, part in spec.parts)
    return bool(spec.gang or spec.queue_name or spec.runtime_ref or named or template.get("schedulerName"))
