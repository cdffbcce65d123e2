"""Delete kept jobs that no task needs any more.

The first task lists what the second one deletes; the list could be mailed to the owners. Schedule this DAG once for
each backend, connection and namespace that jobs run in. On a cluster, leave `backend` out to clean up the jobs of all
backends.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from airflow_trainer_provider import CleanUpTrainJobsOperator


@dag(schedule=None, catchup=False, tags=["trainer"], doc_md=__doc__)
def example_clean_up() -> None:
    old = {"backend": "local", "older_than": timedelta(days=14)}
    listed = CleanUpTrainJobsOperator(task_id="list", list_only=True, **old)
    listed >> CleanUpTrainJobsOperator(task_id="clean_up", **old)


example_clean_up()
