"""A task's next try takes over the job that was suspended with the task."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster import suspension
from airflow_trainer_provider.cluster.order import Order
from airflow_trainer_provider.cluster.submit import Submitter
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.unit.cluster.fake_cluster import NAMESPACE, FakeCluster, add_job, ours

KIND = KINDS["jaxjob"]
TRY = Identity(dag_id="mnist", run_id="monday", task_id="train", map_index=2, try_number=4)


class _Busy(FakeCluster):
    """Somebody changes each object between the first look at it and the first change to it."""

    def __init__(self):
        super().__init__()
        self.conflicts = 1

    async def patch(self, resource, namespace, name, patch):
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError("the object has been modified", status=409, reason="Conflict")
        return await super().patch(resource, namespace, name, patch)


@pytest.mark.parametrize("cluster", [FakeCluster(), _Busy()], ids=["alone", "busy"])
async def test_it_is_resumed_once(cluster, monkeypatch):
    # A second resume would wait for the pods of the first.
    monkeypatch.setattr(suspension, "_GONE_SECONDS", -1)
    annotations = {labels.CANCELLED: "killed", labels.ON_KILL: "suspend", labels.DIGEST: "d", labels.COMPLETE: "true"}
    metadata = ours("j", **annotations)
    metadata["labels"][labels.TASK] = TRY.key
    add_job(cluster, "jaxjob", "j", metadata=metadata, spec={"runPolicy": {"suspend": True}, "jaxReplicaSpecs": {}})
    order = Order(kind=KIND, identity=TRY, digest="d", name="other", grace=1, render=lambda name, facts: None)

    kind, main, adopted = await Submitter(cluster, NAMESPACE, order).submit()

    assert (kind, main["metadata"]["name"], adopted) == (KIND, "j", "it was suspended, and goes on")
    (_, _, handed), (_, _, resumed) = cluster.patches()
    assert handed["metadata"]["annotations"] == {labels.OWNER: "4", labels.CANCELLED: None}
    assert resumed == {"spec": {"runPolicy": {"suspend": False}}}
