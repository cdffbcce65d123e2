"""Defaults and locked values are filled in where a job has no value."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.policies.fill import fill_in
from airflow_trainer_provider.presets.merge import merge
from tests.unit.policies.jobs import policy


def filled(fields, *rules):
    asked = merge([("the task", fields)])
    fill_in([policy(*rules)], asked)
    return asked


@pytest.mark.parametrize(
    ("fields", "rule", "expected"),
    [
        ({}, {"field": "image", "default": "i"}, {"image": "i"}),
        ({"image": "mine"}, {"field": "image", "default": "i"}, {"image": "mine"}),
        # The check refuses it.
        ({"image": "mine"}, {"field": "image", "locked": "i"}, {"image": "mine"}),
        ({}, {"field": "env.A", "locked": "1"}, {"env": {"A": "1"}}),
        ({"env": {"B": "2"}}, {"field": "env.A", "locked": "1"}, {"env": {"B": "2", "A": "1"}}),
        ({"env": "text"}, {"field": "env.A", "locked": "1"}, {"env": "text"}),
        ({}, {"field": "replicas.*.image", "default": "i"}, {}),
        (
            {"replicas": {"worker": {}, "master": {"image": "m"}}},
            {"field": "replicas.*.image", "default": "i"},
            {"replicas": {"worker": {"image": "i"}, "master": {"image": "m"}}},
        ),
        ({}, {"field": "num_nodes", "default": 2}, {"num_nodes": 2}),
        ({"num_workers": 1}, {"field": "num_nodes", "default": 2}, {"num_workers": 1}),
        ({"elastic": {"max_nodes": 2}}, {"field": "num_nodes", "default": 2}, {"elastic": {"max_nodes": 2}}),
        (
            {"elastic": {"max_nodes": 2}},
            {"field": "elastic.max_restarts", "default": 1},
            {"elastic": {"max_nodes": 2, "max_restarts": 1}},
        ),
        ({}, {"field": "run_policy.backoff_limit", "locked": 0}, {"run_policy": {"backoff_limit": 0}}),
        ({}, {"field": "image", "required": True}, {}),
    ],
)
def test_a_value_is_filled_in(fields, rule, expected):
    assert filled(fields, rule).fields == expected


def test_the_first_policy_wins_and_the_source_is_its_file():
    asked = filled({"env": {"B": "2"}}, {"field": "image", "default": "first"}, {"field": "image", "default": "second"})

    assert asked.fields["image"] == "first"
    assert asked.summary() == "from the task: env.B; from policy /policies/one.yaml: image"
