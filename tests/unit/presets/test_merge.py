"""Parts of a spec are laid over each other, and each field's source is kept."""

from __future__ import annotations

import copy

import pytest

from airflow_trainer_provider.presets.merge import fill, has_size, merge


def merged(*parts):
    return merge([(f"part {number}", part) for number, part in enumerate(parts)])


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([{"image": "a"}, {"image": "b"}], {"image": "b"}, id="a value is replaced"),
        pytest.param([{"args": ["a", "b"]}, {"args": ["c"]}], {"args": ["c"]}, id="a list is replaced"),
        pytest.param(
            [{"resources_per_node": {"cpu": 1, "gpu": 2}}, {"resources_per_node": {"cpu": 4}}],
            {"resources_per_node": {"cpu": 4, "gpu": 2}},
            id="a mapping is merged",
        ),
        pytest.param(
            [
                {"tools": {"tb": {"port": 6006, "access": "node_port"}}},
                {"tools": {"tb": {"port": 1}, "lab": {"port": 2}}},
            ],
            {"tools": {"tb": {"port": 1, "access": "node_port"}, "lab": {"port": 2}}},
            id="tools are merged by their names",
        ),
        pytest.param(
            [{"resources_per_node": {"cpu": {"requests": 1, "limits": 2}}}, {"resources_per_node": {"cpu": 4}}],
            {"resources_per_node": {"cpu": 4}},
            id="a mapping is replaced by a value",
        ),
        pytest.param(
            [{"env": {"A": "1", "B": "2"}}, {"env": {"B": "3", "C": "4"}}],
            {"env": {"A": "1", "B": "3", "C": "4"}},
            id="variables are merged by name",
        ),
        pytest.param(
            [{"env": {"A": {"secret": "s", "key": "k"}}}, {"env": {"A": {"config_map": "c"}}}],
            {"env": {"A": {"config_map": "c"}}},
            id="a variable is whole",
        ),
        pytest.param(
            [
                {"replicas": {"worker": {"env": {"A": "1"}, "image": "i"}}},
                {"replicas": {"worker": {"env": {"B": "2"}}}},
            ],
            {"replicas": {"worker": {"env": {"A": "1", "B": "2"}, "image": "i"}}},
            id="within a role",
        ),
        pytest.param([{"num_nodes": 8}, {"num_workers": 2}], {"num_workers": 2}, id="a size replaces another"),
        pytest.param(
            [{"replicas": {"worker": {"replicas": 8, "image": "i"}}}, {"num_nodes": 2}],
            {"replicas": {"worker": {"image": "i"}}, "num_nodes": 2},
            id="a size replaces that of a role",
        ),
        pytest.param(
            [{"elastic": {"min_nodes": 1, "max_nodes": 2}}, {"elastic": {"max_nodes": 4}}],
            {"elastic": {"min_nodes": 1, "max_nodes": 4}},
            id="an elastic size is merged",
        ),
        pytest.param(
            [{"num_nodes": 1, "num_workers": 2}],
            {"num_nodes": 1, "num_workers": 2},
            id="a contradiction in one part is left to the spec",
        ),
    ],
)
def test_parts_are_merged(parts, expected):
    given = copy.deepcopy(parts)

    assert merged(*parts).fields == expected
    assert parts == given


def test_each_value_has_the_source_that_it_comes_from():
    result = merged(
        {"num_nodes": 8, "env": {"A": "1", "B": {"secret": "s"}}, "resources_per_node": {"cpu": 1, "gpu": 8}},
        {"num_workers": 1, "env": {"B": "2"}, "resources_per_node": {"gpu": 1}},
        {"args": []},
    )

    assert result.sources == {
        ("env", "A"): "part 0",
        ("resources_per_node", "cpu"): "part 0",
        ("num_workers",): "part 1",
        ("env", "B"): "part 1",
        ("resources_per_node", "gpu"): "part 1",
        ("args",): "part 2",
    }
    assert result.summary() == (
        "from part 0: env.A, resources_per_node.cpu; from part 1: num_workers, env.B, resources_per_node.gpu; "
        "from part 2: args"
    )


def test_the_summary_names_a_bounded_number_of_fields():
    assert merged({"env": {f"V{number}": "x" for number in range(30)}}).summary().endswith("env.V19 and 10 more")


def test_one_value_is_filled_in():
    result = merged({"run_policy": {"backoff_limit": 1}})

    fill(result, ("run_policy", "grace_period_seconds"), 5, "a policy")

    assert result.fields == {"run_policy": {"backoff_limit": 1, "grace_period_seconds": 5}}
    assert result.sources["run_policy", "grace_period_seconds"] == "a policy"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"replicas": {"worker": {}}}, False),
        ({"replicas": "text"}, False),
        ({"num_workers": 1}, True),
        ({"replicas": {"worker": {"replicas": 2}}}, True),
    ],
)
def test_a_size_is_found(fields, expected):
    assert has_size(fields) is expected
