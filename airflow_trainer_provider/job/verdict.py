"""The verdict on a job that can still be asked for its log."""

from __future__ import annotations

from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis, diagnose
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.plan.framework import Framework
from airflow_trainer_provider.job.status import JobPhase, JobStatus

#: The log lines that are searched for the traceback of a failure.
_SEARCHED_LINES = 400


async def verdict(backend: Backend, handle: JobHandle, framework: Framework, status: JobStatus) -> Diagnosis | None:
    """Say why a job failed; None where it has not.

    :param backend: where it runs.
    :param handle: the job.
    :param framework: which it runs.
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
            # Pods go, and their logs with them; a disk fails. The verdict does without.
            lines = []
    return diagnose(handle.name, framework, status, lines)
