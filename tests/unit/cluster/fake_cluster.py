"""A cluster in memory: objects that can be read, patched and deleted, and nobody who acts on them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from airflow_trainer_provider.cluster.client import Listing
from airflow_trainer_provider.cluster.connection import ClusterConnection
from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import JOBS, PODS, Manifest, Resource
from airflow_trainer_provider.kinds.registry import KINDS

NAMESPACE = "team"


class FakeCluster:
    """Stands for :class:`~airflow_trainer_provider.cluster.cluster.Cluster` and its client.

    :param missing: plurals that the cluster does not have.
    """

    def __init__(self, *missing: str) -> None:
        self.connection = ClusterConnection(id="fake", namespace=NAMESPACE)
        self.client = self
        self.missing = set(missing)
        self.objects: dict[tuple[str, str, str], Manifest] = {}
        #: (verb, plural, name, what), as they were asked for; reading is not noted.
        self.asked: list[tuple[str, str, str, Any]] = []
        #: Called before each answer to a list of pods.
        self.before_pods: Callable[[], None] = lambda: None
        self.closed = False

    def add(self, resource: Resource, name: str, **fields: Any) -> Manifest:
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T07:00:00Z",
            **fields.pop("metadata", {}),
        }
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        self.objects[resource.plural, NAMESPACE, name] = manifest
        return manifest

    def patches(self) -> list[tuple[str, str, Any]]:
        return [(plural, name, what) for verb, plural, name, what in self.asked if verb == "patch"]

    async def serves(self, resource: Resource) -> bool:
        return resource.plural not in self.missing

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest:
        assert resource.plural not in self.missing
        try:
            return copy.deepcopy(self.objects[resource.plural, namespace, name])
        except KeyError:
            raise ApiError(f"no {resource.plural} {name}", status=404) from None

    async def get_path(self, path: str) -> Manifest:
        raise ApiError(f"no {path}", status=404)

    async def list(
        self, resource: Resource, namespace: str, *, label_selector: str = "", field_selector: str = "", **_: Any
    ) -> Listing:
        assert resource.plural not in self.missing
        if resource is PODS:
            self.before_pods()
        found = [
            copy.deepcopy(manifest)
            for (plural, where, _), manifest in self.objects.items()
            if (plural, where) == (resource.plural, namespace)
            and _matches(manifest, label_selector)
            and field_selector in ("", "type=Warning", f"metadata.name={manifest['metadata']['name']}")
        ]
        return Listing(found, "1")

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Manifest) -> Manifest:
        self.asked.append(("patch", resource.plural, name, patch))
        manifest = await self.get(resource, namespace, name)
        uid = patch.get("metadata", {}).get("uid")
        if uid not in (None, manifest["metadata"]["uid"]):
            raise ApiError("the object is another", status=409)
        self.objects[resource.plural, namespace, name] = merged = _merged(manifest, patch)
        return merged

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str | None = None) -> bool:
        self.asked.append(("delete", resource.plural, name, uid))
        key = (resource.plural, namespace, name)
        if key not in self.objects or uid not in (None, self.objects[key]["metadata"]["uid"]):
            return False
        del self.objects[key]
        return True

    async def close(self) -> None:
        self.closed = True


def add_job(cluster: FakeCluster, key: str, name: str, **fields: Any) -> Manifest:
    """A job that something else made, of one worker."""
    specs = {
        "jaxjob": {"jaxReplicaSpecs": {"Worker": {"replicas": 1}}},
        "trainjob": {"trainer": {"numNodes": 1}, "runtimeRef": {"name": "torch"}},
    }
    return cluster.add(KINDS[key].resource, name, **{"spec": specs[key], **fields})


def ours(name: str, **annotations: str) -> dict[str, Any]:
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


def add_native(cluster: FakeCluster, name: str, *, queue: str | None = None, **spec: Any) -> Manifest:
    """A task's job on plain Kubernetes: its Service, and its one Job."""
    own = {labels.JOB: name, "airflow-trainer-provider/first-rank": "0", "airflow-trainer-provider/waited-for": "true"}
    queued = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    cluster.add(JOBS, f"{name}-worker", metadata={"labels": {**own, **queued}}, spec={"completions": 1, **spec})
    return cluster.add(KINDS["native"].resource, name, metadata=ours(name), spec={})


def add_pod(cluster: FakeCluster, job: str, key: str = "jaxjob", phase: str = "Running", **metadata: Any) -> Manifest:
    """The pod of a job's worker-0."""
    operator = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    native = {
        "airflow-trainer-provider/first-rank": "0",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    return cluster.add(
        PODS,
        f"{job}-worker-0",
        metadata={"labels": {KINDS[key].pod_label: job, **operator, **native}, **metadata},
        spec={"containers": [{"name": "jax"}], "nodeName": "node", "terminationGracePeriodSeconds": 1},
        status={
            "phase": phase,
            "containerStatuses": [
                {"name": "jax", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-21T07:00:01Z"}}}
            ],
        },
    )


def _matches(manifest: Manifest, selector: str) -> bool:
    own = manifest["metadata"].get("labels") or {}
    wanted = [each.partition("=") for each in selector.split(",") if each]
    return all(name in own and (not equals or own[name] == value) for name, equals, value in wanted)


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        merged[name] = _merged(merged.get(name), part)
        if part is None:
            del merged[name]
    return merged
