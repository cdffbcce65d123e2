"""The provider as an Airflow plugin."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_trainer_provider.plugins import marked_tasks


class TrainerPlugin(AirflowPlugin):
    """Ends the jobs of tasks that somebody marks in the UI or through the API."""

    name = "trainer"
    listeners = [marked_tasks]
