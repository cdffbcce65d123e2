"""Which memory grows where a replica ran out of it, and by how much."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.plan.more_memory import grown, more_memory
from airflow_trainer_provider.spec import parse_spec


def _job(factor=1.5, most="1Gi", **fields):
    run_policy = {"on_oom": {"factor": factor, "max": most}}
    return plan_job(parse_spec({"framework": "pytorch", "num_nodes": 3, "run_policy": run_policy, **fields}))


def _memory(job):
    amounts = {each.name: each.resources and each.resources.memory for each in job.replicas}
    return {name: amount and (amount.requests, amount.limits) for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("memory", "factor", "most", "after"),
    [
        ("100Mi", 1.5, "1Gi", ("150Mi", "150Mi")),
        ("1Gi", 1.1, "64Gi", ("1127Mi", "1127Mi")),
        ("100M", 2, "1Gi", ("191Mi", "191Mi")),
        ("700Mi", 1.5, "1Gi", ("1Gi", "1Gi")),
        ({"requests": "100Mi", "limits": "300Mi"}, 2, "1Gi", ("200Mi", "600Mi")),
        ({"requests": "600Mi", "limits": "700Mi"}, 2, "1Gi", ("1Gi", "1Gi")),
        ({"limits": "100Mi"}, 2, "1Gi", (None, "200Mi")),
    ],
)
def test_memory_grows_by_the_factor_in_whole_mebibytes_and_to_the_most(memory, factor, most, after):
    job = _job(factor, most, resources_per_node={"memory": memory, "cpu": 2})

    more = more_memory(job, "worker-1")

    larger = grown(job, more, plan_job)
    assert set(_memory(larger).values()) == {after}
    assert (more.field, more.after) == ("resources_per_node.memory", after[1])
    assert {each.resources.cpu.limits for each in larger.replicas} == {"2"}
    assert larger.asked == job.spec
    assert grown(larger, more, plan_job).asked == job.spec


@pytest.mark.parametrize(
    ("failed", "field", "changed"),
    [
        ("master-0", "replicas.master.resources.memory", {"master-0"}),
        ("worker-0", "resources_per_node.memory", {"worker-0"}),
        ("worker-1", "replicas.worker.overrides[0].resources.memory", {"worker-1"}),
        # Of a runtime that has more nodes than the task says.
        ("worker-9", "replicas.master.resources.memory", {"master-0"}),
    ],
)
def test_what_grows_is_the_field_that_gave_the_replica_its_memory(failed, field, changed):
    overrides = [{"index": 1, "resources": {"memory": "200Mi"}}]
    replicas = {"master": {"resources": {"memory": "100Mi"}}, "worker": {"overrides": overrides}}
    job = _job(resources_per_node={"memory": "300Mi"}, replicas=replicas)

    more = more_memory(job, failed)

    before, after = _memory(job), _memory(grown(job, more, plan_job))
    assert more.field == field
    assert {name for name in after if after[name] != before[name]} == changed


@pytest.mark.parametrize("most", ["101Mi", "100Mi"])
def test_a_replica_that_has_the_most_gets_no_more(most):
    replicas = {"worker": {"resources": {"memory": "50Mi"}}}
    job = _job(most=most, resources_per_node={"memory": "101Mi"}, replicas=replicas)

    assert more_memory(job, "master-0") is None
    assert more_memory(job, "worker-0") is not None


def test_a_replica_without_a_limit_gets_no_more():
    job = _job(replicas={"worker": {"resources": {"memory": "50Mi"}}})

    assert more_memory(job, "master-0") is None


def test_nothing_grows_where_nothing_says_so():
    job = plan_job(parse_spec({"framework": "jax", "resources_per_node": {"memory": "1Gi"}}))

    assert more_memory(job, "worker-0") is None
