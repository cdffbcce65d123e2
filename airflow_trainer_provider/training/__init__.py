"""Functions that a training itself may call. This is the only part of the package that is copied into a function's job.

It runs there on Python 3.8 or newer, with the standard library only.
"""

from __future__ import annotations

from airflow_trainer_provider.training.progress import report as report

__all__ = ["report"]
