"""The error of a task whose job failed."""

from __future__ import annotations

from airflow_trainer_provider.errors import TrainJobError
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis


class JobFailed(TrainJobError):
    """The job ended without success.

    :param diagnosis: which replica failed first, why, and whether a retry can help.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        super().__init__()
        # Not redacted again: the diagnosis is redacted already, and its traceback contains code.
        self.args = (diagnosis.text(),)
        self.retryable = diagnosis.retry_can_help != "no"
