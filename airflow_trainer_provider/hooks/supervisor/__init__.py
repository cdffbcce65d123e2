"""Requests to this process's supervisor, which forwards them to Airflow's API server."""
