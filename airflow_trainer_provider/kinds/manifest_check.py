"""Checks the numbers of replicas in manifests that no API server has validated yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.spec.values.limits import MOST_REPLICAS
from airflow_trainer_provider.spec.values.plain import path


def check_count(main: Manifest, *place: str) -> None:
    """Refuse an invalid number of replicas, and any value on the path to it that is not a mapping.

    :param main: the user's own manifest.
    :param place: the path of the number; the field may be absent.
    :raises SpecError: naming the field and the way out.
    """
    value: Any = main
    for at, name in enumerate(place):
        if value is None:
            return
        if not isinstance(value, Mapping):
            field = path(("manifest", *place[:at]))
            raise SpecError([Problem(field, type(value).__name__, "a mapping", "Write a mapping.")])
        value = value.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_REPLICAS
    if value is not None and not is_count:
        shown = value if isinstance(value, (int, float)) else type(value).__name__
        allowed = f"a whole number of at most {MOST_REPLICAS}"
        raise SpecError([Problem(path(("manifest", *place)), shown, allowed, f"Correct {place[-1]}.")])
