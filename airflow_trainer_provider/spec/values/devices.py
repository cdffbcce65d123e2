"""Devices of a node: accelerators and other extended resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import Count, all_wrong, wrong
from airflow_trainer_provider.spec.values.labels import is_key

#: The resource that a plain number in ``gpu`` counts.
NVIDIA = "nvidia.com/gpu"
#: The prefix of a resource's name in a ResourceQuota.
_QUOTA = "requests."
_LONGEST_SHOWN = 63
_NAMES = "names of resources: a DNS domain other than kubernetes.io, '/', and a name, e.g. rdma/hca"
_ACCELERATOR = 'a whole number, or one resource with its number, e.g. {"amd.com/gpu": 1}'


def _is_resource(name: str) -> bool:
    prefix = name.rpartition("/")[0]
    native = "kubernetes.io/" in name or name.startswith(_QUOTA)
    return bool(prefix) and not native and is_key(f"{_QUOTA}{name}")


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        wrong_names = [name for name in value if not _is_resource(name)]
        if wrong_names:
            fix = "Write the name as the nodes have it: kubectl describe node shows it under Allocatable."
            raise all_wrong([Problem("", name[:_LONGEST_SHOWN], _NAMES, fix) for name in wrong_names])
    return value


def _accelerators(value: Any) -> Any:
    """Turn equal requests and limits, and a mapping with NVIDIA's resource, into the plain number."""
    if not isinstance(value, Mapping):
        return value
    if value and value.keys() <= {"requests", "limits"}:
        amounts = [each for each in value.values() if each is not None]
        if len({str(each) for each in amounts}) != 1:
            fix = "Write the number itself: accelerators cannot be used beyond what is requested."
            raise wrong("equal numbers for requests and limits", fix, value="dict")
        return amounts[0]
    if len(value) != 1:
        fix = "Write one; what else a node counts goes into extended."
        raise wrong(_ACCELERATOR, fix, value="dict")
    count = _named(value).get(NVIDIA)
    return value if count is None else count


def _tag(value: Any) -> str:
    return "(resource)" if isinstance(value, Mapping) else "(count)"


_Devices = Annotated[dict[str, Count], BeforeValidator(_named)]
#: Name of a resource -> its number.
Extended = _Devices
#: The number of ``nvidia.com/gpu``, or a mapping of one other resource to its number.
Accelerators = Annotated[
    Annotated[Count, Tag("(count)")] | Annotated[_Devices, Tag("(resource)")],
    Discriminator(_tag),
    BeforeValidator(_accelerators),
]


def counts_of(accelerators: int | Mapping[str, int] | None) -> dict[str, int]:
    """The accelerators as a mapping: name of the resource -> its number.

    :param accelerators: the accelerators of a spec; None if there are none.
    """
    if isinstance(accelerators, int):
        return {NVIDIA: accelerators}
    return dict(accelerators or {})
