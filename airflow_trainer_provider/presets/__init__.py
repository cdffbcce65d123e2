"""Presets: named parts of a spec in files of the administrator, from which jobs are put together.

It imports neither Airflow nor the kinds.
"""
