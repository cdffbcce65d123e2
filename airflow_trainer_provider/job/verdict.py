"""The verdict on a job whose log can still be read."""

from __future__ import annotations

from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.plan.framework import Framework
from airflow_trainer_provider.job.status import JobPhase, JobStatus

#: The log lines that are searched for the traceback of a failure.
_SEARCHED_LINES = 400


async def verdict(backend: Backend, handle: JobHandle, framework: Framework, status: JobStatus) -> Diagnosis | None:
    """Determine why a job failed; None where it has not failed.

    :param backend: where it runs.
    :param handle: the job.
    :param framework: its framework.
    :param status: its status.
    """
    if not status.phase.ended or status.phase is JobPhase.SUCCEEDED:
        return None
    lines: list[str] = []
    replica = status.first_failed or next((replica.name for replica in status.replicas), None)
    if replica:
        try:
            lines = await backend.log_tail(handle, replica, _SEARCHED_LINES)
        except Exception:
            # Pods are deleted together with their logs, and disks fail. The verdict then does without log lines.
            lines = []
    return diagnose(handle.name, framework, status, lines)
