"""Presets: named parts of a spec in files of the administrator, from which jobs are put together.

Knows nothing of Airflow, nor of the cluster's kinds.
"""
