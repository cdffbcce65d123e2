"""The last status of a job, whose pods go while they are looked at."""

from __future__ import annotations

from contextlib import aclosing

from airflow_trainer_provider.cluster import backend as backend_module
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.objects import handle_of
from airflow_trainer_provider.cluster.view import View
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.registry import KINDS
from tests.unit.cluster.fake_cluster import NAMESPACE, FakeCluster, add_job, add_pod, ours

KIND = KINDS["jaxjob"]
SUCCEEDED = {"conditions": [{"type": "Succeeded", "status": "True", "lastTransitionTime": "2026-11-21T07:01:00Z"}]}


class _Live:
    """What the watches had seen of a job whose pod was deleted a moment ago."""

    is_gone = False

    def __init__(self, *seen):
        self.seen = seen

    def view(self):
        main, *pods = self.seen
        return View(KIND, main, pods)

    def close(self):
        pass


async def test_a_pod_that_went_before_it_was_read_again_tells_how_it_ended(monkeypatch):
    cluster = FakeCluster()
    main = add_job(cluster, "jaxjob", "j", metadata=ours("j"), status=SUCCEEDED)
    pod = add_pod(cluster, "j", phase="Succeeded")
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-11-21T07:00:59Z"}}
    pod["status"]["containerStatuses"][0]["state"] = state
    await cluster.delete(PODS, NAMESPACE, pod["metadata"]["name"])

    async def live_view(*_, **__):
        return _Live(main, pod)

    monkeypatch.setattr(backend_module, "live_view", live_view)

    handle = handle_of("training-operator", KIND, main, "fake")
    async with aclosing(ClusterBackend("training-operator", cluster, NAMESPACE).watch(handle)) as statuses:
        (last,) = [status async for status in statuses]

    assert last.phase is JobPhase.SUCCEEDED
    assert [(each.name, each.reason) for each in last.replicas] == [("worker-0", "Completed")]
