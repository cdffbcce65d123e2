"""Scheduling: valid values, the errors of invalid ones, and how a group's fields override the job's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.spec.scheduling import MOST_POOLS

KEY = "1 to 63 letters, digits, '-', '_' and '.'"
VALUE = "at most 63 letters, digits, '-', '_' and '.'"


def _toleration(**fields: Any) -> dict[str, Any]:
    return {"tolerations": [fields]}


def _requirement(**fields: Any) -> dict[str, Any]:
    return {"node_affinity": [fields]}


@pytest.mark.parametrize(
    ("scheduling", "field", "value", "allowed", "fix"),
    [
        ("a100", "", "str", "a mapping of its fields", "Change scheduling."),
        ({"nodeSelector": {}}, "nodeSelector", "nodeSelector", "node_selector, node_pools", "Did you mean"),
        ({"node_selector": ["a"]}, "node_selector", "list", "a mapping of names to text", "Write names and values."),
        ({"node_selector": {"a b": "c"}}, "node_selector", "a b", KEY, "Rename it."),
        ({"node_selector": {"a/b/c": "c"}}, "node_selector", "a/b/c", KEY, "Rename it."),
        ({"node_selector": {"A/b": "c"}}, "node_selector", "A/b", KEY, "Rename it."),
        ({"node_selector": {"a": "b c"}}, "node_selector.a", "b c", VALUE, "Shorten it"),
        ({"node_selector": {"a": "b" * 64}}, "node_selector.a", "b" * 64, VALUE, "Shorten it"),
        ({"node_selector": {"a": True}}, "node_selector.a", True, "text or a number", "Write the text"),
        ({"node_pools": "a100"}, "node_pools", "str", "a list", "Change scheduling.node_pools."),
        ({"node_pools": ["a", "a"]}, "node_pools", "a", "each pool once", "Drop one 'a'."),
        ({"node_pools": list("abc") * 34}, "node_pools", "list", "at most 100 items", "Shorten scheduling.node_pools."),
        ({"node_pool_label": "a b"}, "node_pool_label", "a b", KEY, "Correct it."),
        (_requirement(values=["a"]), "node_affinity[0].key", None, "a value", "Set scheduling.node_affinity[0].key."),
        (_requirement(key="zone"), "node_affinity[0].values", [], "at least one value beside operator In", "Set"),
        (_requirement(key="a", operator="in", values=["b"]), "node_affinity[0].operator", "in", "In, NotIn", "Use one"),
        (
            _requirement(key="zone", operator="Exists", values=["a"]),
            "node_affinity[0].values",
            ["a"],
            "no values beside operator Exists",
            "Drop values, or set operator to In or NotIn.",
        ),
        (
            _requirement(key="cores", operator="Gt", values=["8", "9"]),
            "node_affinity[0].values",
            ["8", "9"],
            "one whole number beside operator Gt",
            "Set values to a list of one number.",
        ),
        (_toleration(), "tolerations[0].key", None, "the taint's key, or operator Exists", "Set key; or operator"),
        (_toleration(value="a"), "tolerations[0].key", None, "the taint's key beside its value", "Set key."),
        (_toleration(key="a", operator="Equals"), "tolerations[0].operator", "Equals", "Exists, Equal", "Did you mean"),
        (_toleration(key="a", operator="Equal"), "tolerations[0].value", None, "a value beside operator Equal", "Set"),
        (
            _toleration(key="a", operator="Exists", value="b"),
            "tolerations[0].value",
            "b",
            "no value beside operator Exists",
            "Drop value, or set operator to Equal.",
        ),
        (
            _toleration(key="a", effect="NoSchedule", seconds=30),
            "tolerations[0].seconds",
            30,
            "no value, unless effect is NoExecute",
            "Set effect to NoExecute, the only one that ends running pods, or drop seconds.",
        ),
        (
            _toleration(key="a", effect="NoExecute", seconds=-1),
            "tolerations[0].seconds",
            -1,
            "a number of at least 0",
            "Set",
        ),
        ({"topology": "zone"}, "topology", "str", "a mapping of its fields", "Change scheduling.topology."),
        ({"topology": {"policy": "pack"}}, "topology.key", None, "a value", "Set scheduling.topology.key."),
        ({"topology": {"key": "zone", "policy": "packed"}}, "topology.policy", "packed", "pack, spread", "Did you"),
        ({"topology": {"key": "zone", "required": "maybe"}}, "topology.required", "maybe", "true or false", "Change"),
        ({"priority_class": "High"}, "priority_class", "High", "1 to 253 lowercase", "Write the object's name alone."),
        ({"scheduler_name": "KAI Scheduler"}, "scheduler_name", "KAI Scheduler", "1 to 253 lowercase", "Write the"),
        (
            _toleration(key="a", seconds=30),
            "tolerations[0].seconds",
            30,
            "no value, unless effect is NoExecute",
            "Set effect to NoExecute",
        ),
        (
            _requirement(key="cores", operator="Gt", values=["many"]),
            "node_affinity[0].values",
            ["many"],
            "one whole number beside operator Gt",
            "Set values to a list of one number.",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("role", [None, "worker"])
def test_what_is_wrong_is_named(scheduling, field, value, allowed, fix, role):
    place = f"replicas.{role}.scheduling" if role else "scheduling"
    fields = {"replicas": {role: {"scheduling": scheduling}}} if role else {"scheduling": scheduling}
    with pytest.raises(SpecError) as caught:
        parse_spec({"framework": "jax", **fields})

    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"{place}.{field}".rstrip("."), value)
    assert allowed in problem.allowed
    assert problem.fix.startswith(fix.replace("scheduling", place))


def test_numbers_are_taken_for_text():
    scheduling = {"node_selector": {"slot": 1}, "node_pools": [7], "node_affinity": [{"key": "a", "values": [1]}]}

    spec = parse_spec({"framework": "jax", "scheduling": scheduling}).scheduling

    assert (spec.node_selector, spec.node_pools, spec.node_affinity[0].values) == ({"slot": "1"}, ("7",), ("1",))
    assert spec.node_affinity[0].operator == "In"


def test_a_groups_fields_are_laid_over_the_jobs():
    job = plan_job(
        parse_spec(
            {
                "framework": "pytorch",
                "num_nodes": 3,
                "scheduling": {
                    "node_selector": {"disk": "nvme", "zone": "a"},
                    "tolerations": [{"key": "gpu"}],
                    "topology": {"key": "rack", "required": True},
                },
                "replicas": {
                    "master": {"scheduling": {"node_selector": {"zone": "b"}, "tolerations": [], "topology": None}},
                    "worker": {"overrides": [{"index": 1, "scheduling": {"node_selector": {"slow": "1"}}}]},
                },
            }
        )
    )

    master, worker, other = (replica.scheduling for replica in job.replicas)
    assert master.node_selector == {"disk": "nvme", "zone": "b"}
    assert (master.tolerations, master.topology) == ((), None)
    assert worker == job.spec.scheduling.of_pods
    # An override's replaces it.
    assert (other.node_selector, other.tolerations, other.topology) == ({"slow": "1"}, (), None)


def test_the_label_of_node_pools_is_the_narrowest_that_is_given():
    fields = {
        "num_workers": 2,
        "scheduling": {"node_pools": ["a"]},
        "replicas": {
            "master": {"scheduling": {"node_pool_label": "own"}},
            "worker": {"overrides": [{"index": 0, "scheduling": {"node_pools": ["b"]}}]},
        },
    }

    job = plan_job(parse_spec({"framework": "pytorch", **fields}), "configured")

    assert [each.scheduling.node_pool_label for each in job.replicas] == ["own", "configured", "configured"]
    assert job.spec.scheduling.node_pool_label is None


def test_as_many_pools_as_there_are_weights():
    spec = parse_spec({"framework": "jax", "scheduling": {"node_pools": [f"p{at}" for at in range(MOST_POOLS)]}})

    assert len(spec.scheduling.node_pools) == MOST_POOLS


def test_what_admits_the_job_is_no_setting_of_its_pods():
    fields = {"framework": "jax", "num_nodes": 2}
    only = plan_job(parse_spec({**fields, "scheduling": {"queue_name": "team"}}))
    both = plan_job(parse_spec({**fields, "scheduling": {"queue_name": "team", "priority_class": "batch"}}))

    assert only.spec.queue_name == both.spec.queue_name == "team"
    assert [replica.scheduling for replica in only.replicas] == [None, None]
    assert {replica.scheduling.model_dump_json(exclude_unset=True) for replica in both.replicas} == {
        '{"priority_class":"batch"}'
    }


@pytest.mark.parametrize(
    ("gang", "field", "allowed", "fix"),
    [
        ("volcanoo", "", "coscheduling, volcano, kai", "Did you mean 'volcano'?"),
        ({}, "scheduler", "a value", "Set scheduling.gang.scheduler."),
        (True, "", "a mapping of its fields", "Change scheduling.gang."),
        (
            {"scheduler": "volcano", "timeout_seconds": 9},
            "timeout_seconds",
            "no value beside scheduler volcano",
            "Drop",
        ),
        ({"scheduler": "coscheduling", "queue": "a"}, "queue", "no value beside scheduler coscheduling", "Drop queue"),
        ({"scheduler": "kai", "min_resources": {"cpu": 1}}, "min_resources", "no value beside scheduler kai", "Drop"),
        ({"scheduler": "kai", "network_topology": {}}, "network_topology", "no value beside scheduler kai", "Drop"),
        ({"scheduler": "kai", "min_available": 0}, "min_available", "at least 1", "Set"),
        ({"scheduler": "kai", "min_member": 2}, "min_member", "min_available", "scheduling.gang.min_available"),
        ({"scheduler": "volcano", "min_resources": {"cpu": "x"}}, "min_resources.cpu", "a positive quantity", "Write"),
    ],
)
def test_what_is_wrong_with_a_gang_is_named(gang, field, allowed, fix):
    with pytest.raises(SpecError) as caught:
        parse_spec({"framework": "jax", "scheduling": {"gang": gang}})

    (problem,) = caught.value.problems
    assert problem.field == f"scheduling.gang.{field}".rstrip(".")
    assert allowed in problem.allowed
    assert fix in problem.fix


def test_a_gang_is_of_the_whole_job():
    with pytest.raises(SpecError, match=r"Write it as scheduling\.gang, which is of the whole job\."):
        parse_spec({"framework": "jax", "replicas": {"worker": {"scheduling": {"gang": "kai"}}}})


def test_a_label_may_be_empty():
    labels = {"node-role.kubernetes.io/gpu": ""}

    assert parse_spec({"framework": "jax", "scheduling": {"node_selector": labels}}).scheduling.node_selector == labels
