"""The runtime that a job starts from: a name, or a mapping with what its initializers fetch."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.spec import TrainJobSpec, parse_spec


def spec(runtime_ref: Any) -> TrainJobSpec:
    return parse_spec({"framework": "pytorch", "runtime_ref": runtime_ref})


@pytest.mark.parametrize("given", ["torch", {"name": "torch"}, {"name": "torch", "initializer": {}}])
def test_a_mapping_of_a_name_alone_is_the_name(given):
    assert spec(given) == spec("torch")
    assert spec(given).runtime_name == "torch"
    assert not spec(given).initializers


def test_a_mapping_with_initializers():
    found = spec({"name": "torch", "initializer": {"model": {"storage_uri": "hf://a/b", "secret": "hub"}}})

    assert found.runtime_name == "torch"
    assert {name: source.storage_uri for name, source in found.initializers.items()} == {"model": "hf://a/b"}
    assert found.secrets == {"hub"}


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({}, "runtime_ref.name", "a value"),
        ({"name": None}, "runtime_ref.name", "text"),
        ({"name": {"name": "x"}}, "runtime_ref.name", "text"),
        ({"initializer": {"model": {"secret": "hub"}}}, "runtime_ref.name", "a value"),
        ({"name": "x", "kind": "TrainingRuntime"}, "runtime_ref.kind", "name, initializer"),
        ({"name": "x", "initializer": {"models": {}}}, "runtime_ref.initializer.models", "dataset, model"),
        (
            {"name": "x", "initializer": {"model": {}}},
            "runtime_ref.initializer.model",
            "at least one of storage_uri, env and secret",
        ),
        (
            {"name": "x", "initializer": {"model": {"storage_uri": "a/b"}}},
            "runtime_ref.initializer.model.storage_uri",
            "a URI of at most 2048 characters",
        ),
        (
            {"name": "x", "initializer": {"model": {"storage_uri": f"s3://{'x' * 2048}"}}},
            "runtime_ref.initializer.model.storage_uri",
            "a URI of at most 2048 characters",
        ),
        (
            {"name": "x", "initializer": {"dataset": {"secret": "Hub"}}},
            "runtime_ref.initializer.dataset.secret",
            "1 to 253 lowercase letters",
        ),
        (
            {"name": "x", "initializer": {"dataset": {"env": {"TRAINER_X": "a"}}}},
            "runtime_ref.initializer.dataset.env",
            "names that do not begin with TRAINER_",
        ),
        (
            {"name": "x", "initializer": {"dataset": {"env": {f"A{at}": "a" for at in range(129)}}}},
            "runtime_ref.initializer.dataset.env",
            "at most 128 items",
        ),
        (["torch"], "runtime_ref", "text"),
        # As Jinja renders a mapping.
        ("{'name': 'torch', 'initializer': {'model': {'secret': 'hub'}}}", "runtime_ref", "a name, or a mapping"),
    ],
)
def test_what_is_wrong(given, field, allowed):
    with pytest.raises(SpecError) as caught:
        spec(given)

    problem = next(each for each in caught.value.problems if each.field == field)
    assert allowed in problem.allowed
