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
#: A quantity in a notation that Kubernetes does not accept: 16GB, 16gb, 16 GiB, 16g.
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
#: The value of ``shared_memory`` that derives its size from the memory limit.
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
    """A hint with Kubernetes' notation of a quantity that was written with a unit of another notation."""
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
    """Use one plain value as both the request and the limit."""
    return value if isinstance(value, (dict, SpecModel)) else {"requests": value, "limits": value}


class Amount(SpecModel):
    """The request and the limit of a replica for one resource.

    :param requests: the amount that must be free for the replica to start; the limit if unset.
    :param limits: the most that the replica may use; no limit if unset.
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
    """A share of one NVIDIA GPU that other pods may use as well: a fraction of its memory, or an amount of memory.

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
    """Turn a number between 0 and 1 into the mapping of a GPU share."""
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


#: A number of whole accelerators, or a share of one GPU.
Gpu = Annotated[
    Annotated[Accelerators, Tag("(devices)")] | Annotated[GpuShare, Tag("(share)")],
    Discriminator(_gpu_tag),
    BeforeValidator(_share),
]


class Resources(SpecModel):
    """Compute resources of one replica. A plain value sets request and limit: ``{"cpu": 2, "memory": "4Gi"}``.

    :param cpu: CPUs.
    :param memory: memory.
    :param gpu: the number of whole NVIDIA GPUs; or one other resource with its number, e.g. ``{"amd.com/gpu": 2}``,
        ``{"google.com/tpu": 4}`` or ``{"nvidia.com/mig-1g.5gb": 1}``; or, with a scheduler that shares GPUs, a share
        of one GPU: ``0.5``, ``{"fraction": 0.5}`` or ``{"memory": "8Gi"}``; clusters only.
    :param extended: the number of each other extended resource, by its name: ``{"rdma/hca": 1}``; clusters only.
    :param shared_memory: the maximum size of ``/dev/shm``, which counts against the memory limit. ``auto`` means half
        of that limit, or no maximum if there is no limit. None keeps the container runtime's 64 MiB. Clusters only.
    """

    cpu: Annotated[CpuAmount, BeforeValidator(_split)] | None = None
    memory: Annotated[MemoryAmount, BeforeValidator(_split)] | None = None
    gpu: Gpu | None = None
    extended: Extended = Field(default_factory=dict)
    shared_memory: SharedMemory | None = None

    @property
    def share(self) -> GpuShare | None:
        """The share of a GPU; None if the replica has whole accelerators, or no accelerator."""
        return self.gpu if isinstance(self.gpu, GpuShare) else None

    @property
    def devices(self) -> dict[str, int]:
        """The resource of the whole accelerators -> their number; empty for a share of a GPU, and for none."""
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
