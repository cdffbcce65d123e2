"""Policies: the administrator's rules for the fields of jobs, each with a reason.

Knows nothing of Airflow, nor of a Kubernetes client.
"""
