"""The containers of a pod share 12 KiB of termination messages: of more than three, each keeps less than 4096 bytes."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.job.result import read_result
from airflow_trainer_provider.kinds.base import PODS
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, add_pod, ours
from tests.fakes.kubernetes import NAMESPACE


@pytest.mark.parametrize(
    ("inits", "sidecars", "written", "said"),
    [
        # With the training itself three containers: 4096 bytes each, as for one.
        (2, 0, 4095, None),
        (3, 0, 3071, None),
        (3, 0, 3072, "more than 3071 bytes, which are the most that are kept in a pod of 4 containers"),
        (2, 2, 2456, None),
        (2, 2, 2457, "more than 2456 bytes"),
    ],
)
async def test_a_result_that_a_pod_of_many_containers_may_have_cut_says_so(api, inits, sidecars, written, said):
    main = add_job(api, "jaxjob", "j", metadata=ours("j"))
    text = '"' + "x" * (written - 2) + '"'
    add_pod(api, "j", phase="Succeeded", state={"terminated": {"exitCode": 0, "message": text}})
    own = api.get(PODS, "j-worker-0")["spec"]["containers"]
    more = {"initContainers": _containers("init", inits), "containers": own + _containers("sidecar", sidecars)}
    api.update(PODS, "j-worker-0", {"spec": more})
    backend = ClusterBackend("training-operator", await api.cluster(), NAMESPACE)

    result = read_result(await backend.result(JobObject(KINDS["jaxjob"], main).handle("kube")))

    assert (result.error is None, result.value is None) == (said is None, said is not None)
    assert (said or "") in (result.error or "")
    assert not result.function


def _containers(name, count):
    return [{"name": f"{name}-{number}", "image": "i"} for number in range(count)]
