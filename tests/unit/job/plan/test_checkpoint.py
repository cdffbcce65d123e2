"""How the replicas of a cluster's job find the folder for its checkpoints."""

from __future__ import annotations

from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.plan.checkpoint import DIR_VARIABLE, mounted
from airflow_trainer_provider.spec import parse_spec


def test_each_replica_mounts_it():
    override = {"index": 1, "volumes": [], "env": {}}
    spec = {
        "framework": "jax",
        "num_nodes": 2,
        "checkpoint": {"claim": "models", "path": "runs"},
        "volumes": [{"mount_path": "/data", "claim": "sets"}],
        "replicas": {"worker": {"overrides": [override]}},
    }

    first, second = mounted(plan_job(parse_spec(spec)), "nightly-01").replicas

    assert first.env == second.env == {DIR_VARIABLE: "/mnt/trainer-checkpoints"}
    assert [volume.mount_path for volume in first.volumes] == ["/data", "/mnt/trainer-checkpoints"]
    assert second.volumes == first.volumes[1:]
    (volume,) = second.volumes
    assert (volume.claim, volume.sub_path) == ("models", "runs/nightly-01")
