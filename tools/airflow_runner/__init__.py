"""A real Airflow on this machine: for ``make up``, ``make demo`` and the tests that need a scheduler.

:class:`AirflowInstance` starts the four processes that make an Airflow (API server, DAG processor, scheduler
with LocalExecutor, triggerer), talks to them through the REST API, and leaves no process behind.
"""

from __future__ import annotations

from tools.airflow_runner.api import AirflowApi, AirflowApiError
from tools.airflow_runner.instance import AirflowInstance

__all__ = ["AirflowApi", "AirflowApiError", "AirflowInstance"]
