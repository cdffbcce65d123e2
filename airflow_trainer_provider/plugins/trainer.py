"""The provider as an Airflow plugin."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_trainer_provider.plugins import ended_tasks


class TrainerPlugin(AirflowPlugin):
    """Ends the jobs of tasks that are over: marked in the UI or through the API, or killed in their last try."""

    name = "trainer"
    listeners = [ended_tasks]
