"""Policies: the administrator's rules for the fields of jobs, each with a reason.

It imports neither Airflow nor a Kubernetes client.
"""
