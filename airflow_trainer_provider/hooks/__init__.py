"""Hooks: the backends and the settings, as Airflow configures them."""
