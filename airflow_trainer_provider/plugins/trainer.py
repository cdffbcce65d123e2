"""The provider as an Airflow plugin."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class TrainerPlugin(AirflowPlugin):
    """Makes Airflow list the provider among its plugins; a view of training jobs has its place here."""

    name = "trainer"
