"""Requests to the process that supervises this one, which hands them to Airflow's API server."""
