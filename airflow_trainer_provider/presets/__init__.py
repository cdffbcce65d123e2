"""Presets: named parts of a spec, in the administrator's files, that tasks combine to define jobs.

This package imports neither Airflow nor the kinds.
"""
