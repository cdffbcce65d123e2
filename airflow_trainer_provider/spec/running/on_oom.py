"""What a task does when its job runs out of memory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from airflow_trainer_provider.spec.compute import Memory
from airflow_trainer_provider.spec.values.base import Number, SpecModel


class OnOom(SpecModel):
    """Submit a job that ran out of memory again, within the same try and with more memory.

    :param factor: the factor by which the memory is multiplied; more than 1, at most 10.
    :param max: the maximum memory of one replica, e.g. ``"64Gi"``. A job that runs out of memory with this amount
        fails.
    """

    factor: Annotated[Number, Field(gt=1, le=10)]
    max: Memory
