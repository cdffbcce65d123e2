"""What a task does when its job runs out of memory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from airflow_trainer_provider.spec.compute import Memory
from airflow_trainer_provider.spec.values.base import Number, SpecModel


class OnOom(SpecModel):
    """Submit a job that ran out of memory again, within the same try and with more of it.

    :param factor: how many times the memory that was too little; more than 1, at most 10.
    :param max: the most memory of one replica, e.g. ``"64Gi"``; a job that has that much fails.
    """

    factor: Annotated[Number, Field(gt=1, le=10)]
    max: Memory
