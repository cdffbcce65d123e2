"""What a training itself may call: the only part of this package that travels with a function into its job.

It runs there on Python 3.8 or newer, with the standard library only.
"""

from __future__ import annotations

from airflow_trainer_provider.training.progress import report as report

__all__ = ["report"]
