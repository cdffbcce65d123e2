"""Jobs as a cluster holds them: made by a task, or by something else, with a pod that runs or has ended."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider.kinds.base import JOBS, PODS
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.kubernetes import FakeKubernetes
from tests.fakes.selectors import Manifest

#: Before all that a fake API server does by itself.
MADE_AT = "2026-11-21T07:00:00Z"


def with_condition(kind: str, at: str = "2026-11-21T07:01:00Z", **fields: str) -> Manifest:
    """The status of a job of which a condition is true.

    :param kind: the condition's type, e.g. ``Succeeded``.
    :param at: when it became true.
    :param fields: other fields of the condition, e.g. its reason.
    """
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": at, **fields}]}


def ours(name: str, **annotations: str) -> Manifest:
    """The metadata of a task's job."""
    identity = '{"dag_id": "mnist", "run_id": "monday", "task_id": "train", "map_index": 2, "try_number": 3}'
    return {
        "labels": {labels.MANAGED_BY: labels.PREFIX, labels.JOB: name},
        "annotations": {
            labels.IDENTITY: identity,
            labels.OWNER: "3",
            labels.FRAMEWORK: "jax",
            labels.GROUPS: '{"worker": 1}',
            **annotations,
        },
    }


def add_job(api: FakeKubernetes, key: str, name: str, **fields: Any) -> Manifest:
    """A job of one worker; by something else unless its metadata are :func:`ours`."""
    specs: dict[str, Any] = {
        "jaxjob": {"jaxReplicaSpecs": {"Worker": {"replicas": 1}}},
        "trainjob": {"trainer": {"numNodes": 1}, "runtimeRef": {"name": "torch"}},
        "job": {"completions": 1, "template": {}},
    }
    metadata = {"creationTimestamp": MADE_AT, **fields.pop("metadata", {})}
    return api.add(KINDS[key].resource, name, **{"metadata": metadata, "spec": specs.get(key, {}), **fields})


def add_native(api: FakeKubernetes, name: str, *, queue: str | None = None, **spec: Any) -> Manifest:
    """A task's job on plain Kubernetes: its Service, and its one Job."""
    own = {labels.JOB: name, "airflow-trainer-provider/first-rank": "0", "airflow-trainer-provider/waited-for": "true"}
    queued = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    main = add_job(api, "native", name, metadata=ours(name))
    reference = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": main["metadata"]["uid"]}
    metadata = {"labels": {**own, **queued}, "creationTimestamp": MADE_AT, "ownerReferences": [reference]}
    api.add(JOBS, f"{name}-worker", metadata=metadata, spec={"completions": 1, **spec})
    return main


def add_pod(
    api: FakeKubernetes,
    job: str,
    key: str = "jaxjob",
    phase: str = "Running",
    *,
    index: int = 0,
    state: Manifest | None = None,
    env: Any = (),
    **metadata: Any,
) -> Manifest:
    """The pod of one of a job's workers.

    :param state: of its container; None for one that runs.
    :param env: the container's variables.
    """
    operator = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
    native = {"airflow-trainer-provider/first-rank": "0", "batch.kubernetes.io/job-completion-index": str(index)}
    kind = KINDS[key]
    # A pod is not older than its job.
    known = job in api.names(kind.resource.plural)
    made_at = api.get(kind.resource, job)["metadata"]["creationTimestamp"] if known else MADE_AT
    given = {"creationTimestamp": made_at, "labels": {kind.pod_label: job, **operator, **native}, **metadata}
    state = state or {"running": {"startedAt": "2026-11-21T07:00:01Z"}}
    return api.add(
        PODS,
        f"{job}-worker-{index}",
        metadata=given,
        spec={
            "containers": [{"name": "jax", "env": list(env)}],
            "nodeName": "node",
            "terminationGracePeriodSeconds": 1,
        },
        status={"phase": phase, "containerStatuses": [{"name": "jax", "restartCount": 0, "state": state}]},
    )
