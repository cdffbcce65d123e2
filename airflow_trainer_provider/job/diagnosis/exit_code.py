"""Applies the exit codes of a job's spec to the end of a replica."""

from __future__ import annotations

from airflow_trainer_provider.job.diagnosis.causes import PERMANENT_EXIT_CODE
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes


def judged_by_exit_code(end: ReplicaStatus, codes: ExitCodes | None) -> ReplicaStatus:
    """The end of a replica, with the reason that follows from its exit code.

    :param end: of a replica that has failed.
    :param codes: ``run_policy.exit_codes`` of the job.
    """
    code = end.shell_code
    # Any other reason says more than the exit code: a memory limit, an eviction, a program that does not exist.
    if codes is None or code is None or end.reason != "Error" or not codes.is_permanent(code):
        return end
    return end.model_copy(update={"reason": PERMANENT_EXIT_CODE})
