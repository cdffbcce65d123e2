"""The lines of a job's pods, for a person, where a webhook has put a container before the training's."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.job.backend import LogSelection
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, add_pod, ours
from tests.fakes.kubernetes import NAMESPACE

#: A job of the user's own manifest, whose container has a name of its own.
_MANIFEST = {
    "metadata": ours("j", **{labels.MANIFEST: "true"}),
    "spec": {"completions": 1, "template": {"spec": {"containers": [{"name": "train"}]}}},
}


async def _shown(api, backend, main, key, **selection):
    found = ClusterBackend(backend, await api.cluster(), NAMESPACE)
    blocks = found.show_logs(JobObject(KINDS[key], main).handle("kube"), LogSelection(**selection))
    return [str(line) async for block in blocks for line in block.lines()]


def _behind_a_proxy(api, key, training):
    """A job's pod in which a container of a service mesh stands first, with lines of both."""
    add_pod(api, "j", key)
    containers = [{"name": name} for name in ("proxy", training)]
    state = {"running": {"startedAt": "2026-11-21T07:00:01Z"}}
    statuses = [{**each, "restartCount": 0, "state": state} for each in containers]
    pod = api.update(
        PODS, "j-worker-0", {"spec": {"containers": containers}, "status": {"containerStatuses": statuses}}
    )
    api.write_log(pod, "listening", "drained", container="proxy")
    api.write_log(pod, "epoch 1", "trained", container=training)


@pytest.mark.parametrize(
    ("backend", "key", "training", "fields"),
    [
        ("training-operator", "jaxjob", "jax", {"metadata": ours("j")}),
        ("native", "job", "train", _MANIFEST),
    ],
    ids=["from a spec", "from a manifest"],
)
async def test_the_replicas_lines_are_those_of_its_training_behind_a_container_that_stands_first(
    api, backend, key, training, fields
):
    main = add_job(api, key, "j", **fields)
    _behind_a_proxy(api, key, training)

    shown = await _shown(api, backend, main, key)
    assert [line for line in shown if line.startswith("[worker-0] ")] == ["[worker-0] epoch 1", "[worker-0] trained"]
    others = ["[worker-0/proxy] listening", "[worker-0/proxy] drained"]
    assert [line for line in shown if not line.startswith("[worker-0] ")] == others
    assert "[worker-0] trained" in await _shown(api, backend, main, key, replica="worker-0", tail=1)
