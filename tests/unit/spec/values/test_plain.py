"""What a field may be made of."""

from __future__ import annotations

import sys
from collections import UserDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.spec import Resources, parse_spec
from airflow_trainer_provider.spec.values.limits import MOST_VALUES
from airflow_trainer_provider.spec.values.plain import path, plain


class Client:
    """A model of Kubernetes' client, as far as it matters here."""

    attribute_map = {"service_account_name": "serviceAccountName"}


class Model(BaseModel):
    secret: str = "hunter2"


class Raising:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("hunter2")

    __repr__ = __str__ = __bool__ = __getattr__


def _endless() -> Any:
    value: list[Any] = []
    value += [value, value]
    return value


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


def _doubled(times: int) -> Any:
    value: Any = ["x" * 100]
    for _ in range(times):
        value = [value, value]
    return value


@contextmanager
def _counted_calls() -> Iterator[list[str]]:
    """The names of the functions that are called meanwhile: unlike seconds, as many on each machine."""
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("value", "copy"),
    [
        (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        (UserDict({"a": None}), {"a": None}),
        (deque(["a"]), ["a"]),
        (range(3), [0, 1, 2]),
        (Resources.model_validate({"cpu": 2}), {"cpu": {"requests": "2", "limits": "2"}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_like_a_list_or_a_mapping_is_copied_to_one(value: Any, copy: Any) -> None:
    assert plain("field", value) == copy


@pytest.mark.parametrize(
    ("value", "field", "fix"),
    [
        ({"a": [Client()]}, "field.a[0]", "sanitize_for_serialization"),
        (Model(), "field", "model_dump"),
        ({"a": Raising()}, "field.a", "Write it as text"),
        ({"a": {1, 2}}, "field.a", "Pass a list"),
        ((x for x in "ab"), "field", "Pass a list"),
        ({"a": b"x"}, "field.a", "Decode it"),
        ({1: "x"}, "field", "Write the key in quotes"),
        ({"a b": [None, {"c": object()}]}, "field['a b'][1].c", "Write it as text"),
        ("\ud800", "field", "Decode the text"),
        ({"a\0": 1}, "field", "NUL"),
        (10**2000, "field", "Correct it"),
        (_nested(60), "field", "Flatten it"),
        (_endless(), "field", "contain itself"),
        (_doubled(40), "field", "Shorten it"),
        (["x"] * 100_000, "field", "Shorten it"),
        (range(10**12), "field", "Shorten it"),
        ("x" * 4_000_000, "field", "object storage"),
        (["ä" * 1000] * 2000, "field", "object storage"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_json_or_too_much_is_refused_at_once_and_not_shown(value: Any, field: str, fix: str) -> None:
    with _counted_calls() as calls, pytest.raises(SpecError) as caught:
        plain("field", value)

    # About six for each value; no more values are looked at than a field may have.
    assert len(calls) < 10 * MOST_VALUES
    (problem,) = caught.value.problems
    assert problem.field == field
    assert fix in f"{problem.value} {problem.fix}"
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_all_fields_that_are_not_json_are_reported_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({"image": object(), "args": {"a": Client()}})

    assert [problem.field for problem in caught.value.problems] == ["image", "args.a"]


def test_a_place_is_written_as_in_python_where_a_key_is_no_word() -> None:
    assert path(("env", "A.B", 0, "a]b", "x" * 80)) == f"env.A.B[0]['a]b']['{'x' * 63}']"


def test_a_group_may_be_called_as_pydantic_calls_its_branches() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({"framework": "jax", "replicas": {"int": {"env": {"CpuAmount": None}}}})

    (problem,) = caught.value.problems
    assert problem.field == "replicas.int.env.CpuAmount"
