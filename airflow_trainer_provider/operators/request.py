"""The request of a task, which views of its job show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_trainer_provider.job.backend import Backend
    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.plan.plan import JobPlan, ManifestPlan, Plan
    from airflow_trainer_provider.spec import Amount, Resources


def request_of(backend: Backend, handle: JobHandle, job: Plan, tries: int, timeout: float | None) -> dict[str, Any]:
    """The value of XCom ``request``, pushed when a job is submitted or adopted. It has no values of variables.

    :param backend: the job's backend.
    :param handle: the job.
    :param job: the job that the task asks for.
    :param tries: the total number of tries of the task.
    :param timeout: how many seconds a try of the task may take; None for no limit.
    :return: JSON values; None means unknown.
    """
    from airflow_trainer_provider.job.plan.plan import JobPlan

    size = _of_plan(job) if isinstance(job, JobPlan) else _of_manifest(job)
    main = backend.main_object(handle)
    return {
        "framework": handle.framework,
        "backend": handle.backend,
        "can_suspend": backend.can_suspend,
        "namespace": main.namespace if main else None,
        "name": handle.name,
        "tools": dict(handle.tools),
        "max_tries": tries,
        "timeout_seconds": timeout,
        "startup_timeout_seconds": job.spec.run_policy.startup_timeout_seconds,
        **size,
    }


def _of_plan(job: JobPlan) -> dict[str, Any]:
    nodes = job.nodes or job.replicas
    scheduling = job.spec.scheduling
    return {
        "queue": scheduling.queue_name if scheduling else None,
        "image": nodes[0].image,
        "nodes": len(nodes),
        "processes_per_node": job.spec.num_proc_per_node,
        "gpus": sum(_gpus(node.resources) for node in nodes),
        "requested": _requested(nodes[0].resources),
    }


def _of_manifest(job: ManifestPlan) -> dict[str, Any]:
    from airflow_trainer_provider.kinds.objects.labels import QUEUE
    from airflow_trainer_provider.kinds.registry import KINDS

    manifest: Mapping[str, Any] = job.spec.manifest
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    # The manifest's annotations may come from an earlier job.
    groups = KINDS[job.kind].groups({**manifest, "metadata": {}})
    return {
        "queue": labels.get(QUEUE),
        "image": None,
        "nodes": sum(count or 0 for count in groups.values()) or None,
        "processes_per_node": None,
        "gpus": None,
        "requested": _requested(None),
    }


def _gpus(resources: Resources | None) -> int:
    return sum(resources.devices.values()) if resources else 0


def _requested(resources: Resources | None) -> dict[str, Any]:
    """The resources that one node requests."""
    if resources is None:
        return {"gpu": None, "cpu": None, "memory_bytes": None}
    share = resources.share.fraction if resources.share else None
    memory = _amount(resources.memory)
    return {
        "gpu": _gpus(resources) if share is None else float(share),
        "cpu": _amount(resources.cpu),
        "memory_bytes": None if memory is None else int(memory),
    }


def _amount(amount: Amount | None) -> float | None:
    from airflow_trainer_provider.spec.compute import parse_quantity

    text = amount and (amount.requests or amount.limits)
    return float(parse_quantity(text)) if text else None
