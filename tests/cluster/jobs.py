"""Jobs of any kind: what kubectl calls them, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from airflow_trainer_provider.cluster.state.job_object import ClusterLocation
from airflow_trainer_provider.job.handle import JobHandle
from tests.cluster.kubectl import Kubectl

# A condition counts when its status is "True": a job that has succeeded still lists Running, as "False".
_SUCCEEDED = {"Succeeded", "Complete"}
_FAILED = {"Failed"}


class JobFailed(AssertionError):
    """A job that was to succeed has failed; the message carries its conditions."""


def resource_name(handle: JobHandle) -> str:
    """The resource of a job's main object, as kubectl takes it: ``mpijobs.v2beta1.kubeflow.org``."""
    resource = ClusterLocation.of(handle).kind.resource
    group, _, version = resource.api_version.rpartition("/")
    return f"{resource.plural}.{version}.{group}" if group else resource.plural


def conditions(job: dict[str, Any]) -> dict[str, str]:
    """Types of the conditions that hold, with the reason of each."""
    found = job.get("status", {}).get("conditions") or []
    return {one["type"]: one.get("reason", "") for one in found if one["status"] == "True"}


def wait_for_success(kubectl: Kubectl, kind: str, name: str, namespace: str, *, seconds: float = 540) -> dict[str, Any]:
    """Wait for a job's success and return the job.

    :param kind: resource name, with version and group where needed: ``mpijobs.v2beta1.kubeflow.org``.
    :raises JobFailed: when it fails.
    :raises TimeoutError: when it has not ended in time.
    """

    def ended(job: dict[str, Any]) -> bool:
        held = conditions(job)
        if _FAILED & held.keys():
            raise JobFailed(f"{kind} {namespace}/{name} failed: {held}")
        return bool(_SUCCEEDED & held.keys())

    return wait_until(kubectl, kind, name, namespace, ended, seconds=seconds)


def wait_until(
    kubectl: Kubectl, kind: str, name: str, namespace: str, reached: Callable[[dict[str, Any]], bool], *, seconds: float
) -> dict[str, Any]:
    """Wait until an object is as wanted and return it.

    :param reached: object -> whether it is.
    :raises TimeoutError: with the object's status, when it is not in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = kubectl.get(kind, name, namespace)
        if found is not None and reached(found):
            return found
        if time.monotonic() > deadline:
            status = found.get("status") if found else "it does not exist"
            raise TimeoutError(f"{kind} {namespace}/{name} did not get there in {seconds:.0f} s: {status}")
        time.sleep(0.3)
