"""Delete what is kept of jobs once nothing needs it any more.

The first task lists what the second one deletes; it could be mailed to the owners. Schedule it once for each backend,
connection and namespace that jobs run in. On a cluster, leave `backend` out, which cleans up the jobs of all of them.
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
