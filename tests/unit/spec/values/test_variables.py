"""Where the value of a variable may come from, and what is said of what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import spec_digest
from airflow_trainer_provider.spec import TrainJobSpec, VariableSource, parse_spec

ALLOWED = "text, a number, or a mapping with one of secret, config_map and field"
SHAPES = 'Write {"secret": {"name": ..., "key": ...}}'
OBJECT = "1 to 253 lowercase letters, digits, '-' and '.'"


def _parse(value: Any) -> TrainJobSpec:
    return parse_spec({"framework": "jax", "env": {"TOKEN": value}})


@pytest.mark.parametrize(
    ("value", "field", "shown", "allowed", "fix"),
    [
        ({}, "", "dict", ALLOWED, SHAPES),
        ({"valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}, "", "dict", ALLOWED, SHAPES),
        ({"value": "hunter2"}, "", "dict", ALLOWED, SHAPES),
        ({"secret": {"name": "a", "key": "b"}, "field": "metadata.name"}, "", "dict", ALLOWED, SHAPES),
        ({"secret": None}, "", "dict", ALLOWED, SHAPES),
        ({"secret": "hunter2"}, ".secret", "str", "a mapping of its fields", "Change env.TOKEN.secret."),
        ({"secret": {"name": "hub"}}, ".secret.key", None, "a value", "Set env.TOKEN.secret.key."),
        ({"secret": {"name": "hub", "ky": "a"}}, ".secret.ky", "ky", "name, key", "Did you mean 'key'?"),
        ({"secret": {"name": "Hub", "key": "a"}}, ".secret.name", "Hub", OBJECT, "Write the object's name alone."),
        ({"config_map": {"name": "a", "key": "b c"}}, ".config_map.key", "b c", "1 to 253 letters", "Write the key"),
        ({"config_map": {"name": "a", "key": ["b"]}}, ".config_map.key", "list", "text", "Change"),
        ({"field": "spec.containers"}, ".field", "spec.containers", "metadata.name, metadata.namespace", "Use one of"),
        ({"field": "metadata.labels"}, ".field", "metadata.labels", "metadata.labels['KEY']", "Use one of"),
        ({"field": "metadata.labels['a b']"}, ".field", "metadata.labels['a b']", "metadata.labels['KEY']", "Use one"),
        ({"field": {"fieldPath": "a"}}, ".field", "dict", "text", "Change env.TOKEN.field."),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(value, field, shown, allowed, fix):
    with pytest.raises(SpecError) as caught:
        _parse(value)

    problem = next(each for each in caught.value.problems if each.field == f"env.TOKEN{field}")
    assert problem.value == shown
    assert allowed in problem.allowed
    assert problem.fix.startswith(fix)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {"secret": {"name": "hub", "key": "api.token"}},
        {"config_map": {"name": "hub", "key": "TOKEN"}},
        {"field": "status.podIP"},
        {"field": "metadata.annotations['example.com/a.b']"},
    ],
    ids=str,
)
def test_a_source_stays_what_it_is(value):
    spec = _parse(value)

    source = spec.env["TOKEN"]
    assert isinstance(source, VariableSource)
    assert source.model_dump(exclude_none=True) == value
    again = TrainJobSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert spec_digest(again) == spec_digest(spec)
    assert parse_spec({"framework": "jax", "env": spec.env}) == spec


def test_the_digest_says_which_source():
    sources = [
        {"secret": {"name": "a", "key": "b"}},
        {"config_map": {"name": "a", "key": "b"}},
        {"field": "spec.nodeName"},
    ]

    assert len({spec_digest(_parse(value)) for value in [*sources, "b"]}) == 4


def test_a_group_lays_its_variables_over_the_jobs_whatever_they_are():
    env = {"A": {"field": "metadata.name"}, "B": "text", "C": "c"}
    worker = {"A": "text", "B": {"secret": {"name": "a", "key": "b"}}}
    job = plan_job(parse_spec({"framework": "jax", "env": env, "replicas": {"worker": {"env": worker}}}))

    assert job.leader.texts == {"A": "text", "C": "c"}
    assert job.leader.env["B"].secret.key == "b"
