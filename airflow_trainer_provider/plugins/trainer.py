"""The provider as an Airflow plugin."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_trainer_provider.plugins import ended_tasks
from airflow_trainer_provider.plugins.view.mounted import DAG_VIEW, FASTAPI_APP, JOBS_VIEW, TASK_VIEW


class TrainerPlugin(AirflowPlugin):
    """Ends the jobs of tasks that are over: marked in the UI or through the API, or killed in their last try.

    It also shows jobs in Airflow's UI: in the Training tabs of a task instance and of a DAG, and in the Training page.
    """

    name = "trainer"
    listeners = [ended_tasks]
    fastapi_apps = [FASTAPI_APP]
    external_views = [TASK_VIEW, DAG_VIEW, JOBS_VIEW]
