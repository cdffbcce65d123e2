"""Compute resources of one replica, in Kubernetes' notation."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from airflow_trainer_provider.spec.base import Count, SpecModel, wrong

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_SCALE = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}
_LEAST_MEMORY = 2**20


def parse_quantity(text: str) -> Decimal:
    """Read a Kubernetes quantity.

    :param text: e.g. ``500m``, ``2``, ``1.5``, ``4Gi``.
    :return: the amount in base units: CPUs, or bytes.
    :raises ValueError: it is not a quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(text)
    return Decimal(match[1]) * _SCALE[match[2] or ""]


def _quantity(value: Any) -> str:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        text = str(value).strip()
        if _QUANTITY.fullmatch(text) and parse_quantity(text) > 0:
            return text
    allowed = 'a positive quantity such as 2, "500m" or "4Gi" (suffixes m, k, M, G, T, Ki, Mi, Gi, Ti)'
    raise wrong(allowed, "Write it in one of these ways.")


def _memory(value: Any) -> str:
    text = _quantity(value)
    if parse_quantity(text) < _LEAST_MEMORY:
        raise wrong("at least 1Mi", f'A plain number is bytes; add a unit, e.g. "{text}Mi".')
    return text


Cpu = Annotated[str, BeforeValidator(_quantity)]
Memory = Annotated[str, BeforeValidator(_memory)]


def _split(value: Any) -> Any:
    """Let one number stand for the request and the limit alike."""
    return value if isinstance(value, (dict, SpecModel)) else {"requests": value, "limits": value}


class Amount(SpecModel):
    """How much of one resource a replica asks for, and how much it may use at most.

    :param requests: what must be free for the replica to start; the limit where it is left out.
    :param limits: what the replica may use; no bound where it is left out.
    """

    requests: str | None = None
    limits: str | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Amount:
        if self.requests and self.limits and parse_quantity(self.requests) > parse_quantity(self.limits):
            allowed = f"at most the limits ({self.limits})"
            raise wrong(allowed, "Lower requests or raise limits.", "requests", self.requests)
        return self


class CpuAmount(Amount):
    """CPUs: ``2``, ``0.5`` or ``"500m"``."""

    requests: Cpu | None = None
    limits: Cpu | None = None


class MemoryAmount(Amount):
    """Memory in bytes, with a unit: ``"4Gi"``."""

    requests: Memory | None = None
    limits: Memory | None = None


class Resources(SpecModel):
    """What one replica needs. A plain value sets request and limit: ``{"cpu": 2, "memory": "4Gi"}``.

    :param cpu: CPUs.
    :param memory: memory.
    :param gpu: whole NVIDIA GPUs; clusters only.
    """

    cpu: Annotated[CpuAmount, BeforeValidator(_split)] | None = None
    memory: Annotated[MemoryAmount, BeforeValidator(_split)] | None = None
    gpu: Count | None = None
