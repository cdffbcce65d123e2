"""Compute resources of one replica, in Kubernetes' notation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from airflow_trainer_provider.spec.values.base import Number, SpecModel, wrong
from airflow_trainer_provider.spec.values.devices import NVIDIA, Accelerators, Extended, counts_of

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,20})?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
#: A quantity as people write it elsewhere: 16GB, 16gb, 16 GiB, 16g.
_OTHERWISE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,20})?)\s*([kmgt])(i?)b?", re.IGNORECASE)
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
#: A size of the shared memory that follows from the memory limit.
AUTO = "auto"
_QUANTITIES = 'a positive quantity such as 2, "500m" or "4Gi" (suffixes m, k, M, G, T, Ki, Mi, Gi, Ti)'


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
        meant = _OTHERWISE.fullmatch(text)
        if meant:
            raise wrong(_QUANTITIES, _spelling(*meant.groups()))
    raise wrong(_QUANTITIES, "Write it in one of these ways.")


def _spelling(number: str, letter: str, binary: str) -> str:
    """How Kubernetes writes a quantity that has a unit of another notation."""
    decimal = "k" if letter in "kK" else letter.upper()
    if binary:
        return f'Write "{number}{letter.upper()}i".'
    return f'Write "{number}{decimal}" for powers of 1000, or "{number}{letter.upper()}i" for powers of 1024.'


def _memory(value: Any) -> str:
    text = _quantity(value)
    if parse_quantity(text) < _LEAST_MEMORY:
        fix = "Ask for more."
        if text[-1].isdigit():
            fix = f'A plain number is bytes; add a unit, e.g. "{text}Mi".'
        elif text.endswith("m"):
            fix = f'The suffix m is a thousandth. Write "{text[:-1]}Mi" or "{text[:-1]}M".'
        raise wrong("at least 1Mi", fix)
    return text


def _shared_memory(value: Any) -> str:
    if value == AUTO:
        return AUTO
    try:
        return _memory(value)
    except PydanticCustomError as error:
        (problem,) = (error.context or {})["problems"]
        raise wrong(f"{AUTO}, or {problem.allowed}", problem.fix) from None


Quantity = Annotated[str, BeforeValidator(_quantity)]
Cpu = Quantity
Memory = Annotated[str, BeforeValidator(_memory)]
SharedMemory = Annotated[str, BeforeValidator(_shared_memory)]


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


class GpuShare(SpecModel):
    """A part of one NVIDIA GPU, which other pods may share: a fraction of its memory, or an amount of it.

    :param fraction: more than 0 and less than 1.
    :param memory: GPU memory, e.g. ``"8Gi"``; it is rounded down to whole MiB.
    """

    fraction: Annotated[Number, Field(gt=0, lt=1)] | None = None
    memory: Memory | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> GpuShare:
        if (self.fraction is None) == (self.memory is None):
            raise wrong(
                "either fraction or memory", "Write one of the two.", value="neither" if not self.memory else "both"
            )
        return self


_SHARE = frozenset(GpuShare.model_fields)


def _share(value: Any) -> Any:
    """A fraction that is written as a number."""
    if isinstance(value, (float, str)):
        try:
            number = float(value)
        except ValueError:
            return value
        return {"fraction": value} if 0 < number < 1 else value
    return value


def _gpu_tag(value: Any) -> str:
    is_share = isinstance(value, GpuShare) or (isinstance(value, Mapping) and value and value.keys() <= _SHARE)
    return "(share)" if is_share else "(devices)"


#: Whole accelerators, or a share of one.
Gpu = Annotated[
    Annotated[Accelerators, Tag("(devices)")] | Annotated[GpuShare, Tag("(share)")],
    Discriminator(_gpu_tag),
    BeforeValidator(_share),
]


class Resources(SpecModel):
    """What one replica needs. A plain value sets request and limit: ``{"cpu": 2, "memory": "4Gi"}``.

    :param cpu: CPUs.
    :param memory: memory.
    :param gpu: how many whole NVIDIA GPUs; or one other resource with its number, e.g. ``{"amd.com/gpu": 2}``,
        ``{"google.com/tpu": 4}`` or ``{"nvidia.com/mig-1g.5gb": 1}``; or, where a scheduler shares GPUs, a share
        of one: ``0.5``, ``{"fraction": 0.5}`` or ``{"memory": "8Gi"}``; clusters only.
    :param extended: whatever else the nodes count, by its name: ``{"rdma/hca": 1}``; clusters only.
    :param shared_memory: how large ``/dev/shm`` may become, which counts against the memory limit; ``auto`` for half of
        that limit, or no bound where there is none; clusters only. None leaves the container runtime's 64 MiB.
    """

    cpu: Annotated[CpuAmount, BeforeValidator(_split)] | None = None
    memory: Annotated[MemoryAmount, BeforeValidator(_split)] | None = None
    gpu: Gpu | None = None
    extended: Extended = Field(default_factory=dict)
    shared_memory: SharedMemory | None = None

    @property
    def share(self) -> GpuShare | None:
        """The share of a GPU; None for whole ones, or none."""
        return self.gpu if isinstance(self.gpu, GpuShare) else None

    @property
    def devices(self) -> dict[str, int]:
        """The resource that the whole accelerators are, with how many of it."""
        return {} if isinstance(self.gpu, GpuShare) else counts_of(self.gpu)

    @model_validator(mode="after")
    def _gpu_once(self) -> Resources:
        twice = next((name for name in self.extended if name in (NVIDIA, *self.devices)), None)
        if twice is not None:
            allowed = "resources that are not written as gpu"
            raise wrong(allowed, f"Write {twice} as gpu alone.", "extended", twice)
        return self

    @model_validator(mode="after")
    def _fits_into_memory(self) -> Resources:
        limit, shared = self.memory.limits if self.memory else None, self.shared_memory
        if limit and shared and shared != AUTO and parse_quantity(shared) > parse_quantity(limit):
            allowed = f"at most the memory limit ({limit}), against which it counts"
            raise wrong(allowed, "Lower shared_memory, or raise memory.", "shared_memory", shared)
        return self
