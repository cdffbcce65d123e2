"""Objects that run without anything that runs: no controller takes them up, and their status is written by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar

from airflow_trainer_provider.cluster.operations.order import order_of
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import PODS, Facts, Manifest, Resource
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.kubeflow.training_operator import PYTORCHJOB
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.spec import parse_spec
from benchmarks.api import Api, at_once
from benchmarks.cluster import CONN_ID

JOBS = Resource("batch/v1", "Job", "jobs")
#: The controller that the Training Operator leaves a job to. There is no such controller.
ELSEWHERE = "kueue.x-k8s.io/multikueue"
_IMAGE = "trainer.test/worker:test"
#: How long a webhook that does not answer is waited for, in seconds.
_WEBHOOK_SECONDS = 60


def now() -> str:
    """The time, as Kubernetes writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def train_job() -> JobPlan:
    """A training job as people have it."""
    spec = {
        "framework": "pytorch",
        "image": _IMAGE,
        "command": ["python3", "/app/train.py", "--epochs", "10", "--data", "/data/train"],
        "num_nodes": 2,
        "env": {"EXPERIMENT": "baseline", "OMP_NUM_THREADS": "4"},
        "resources_per_node": {"cpu": 4, "memory": "16Gi"},
    }
    return plan_job(parse_spec(spec))


@dataclass
class Population:
    """The objects of one kind that run in a namespace.

    :param api: as the cluster's administrator.
    :param namespace: where.
    """

    api: Api
    namespace: str
    running: dict[str, Manifest] = field(default_factory=dict)
    made: int = 0
    ended: list[str] = field(default_factory=list)

    resource: ClassVar[Resource]

    @property
    def path(self) -> str:
        """Of all of them."""
        return self.resource.path(self.namespace)

    async def fill(self, count: int) -> None:
        """Have so many that run, and none that have ended."""
        await at_once(self._delete, self.ended)
        self.ended.clear()
        missing = count - len(self.running)
        first, self.made = self.made, self.made + max(missing, 0)
        for made in await at_once(self._create, range(first, self.made)):
            self.running[made["metadata"]["name"]] = made

    async def end(self, name: str) -> float:
        """Have one succeed.

        :return: when that was asked for, by the monotonic clock.
        """
        del self.running[name]
        self.ended.append(name)
        begun = time.monotonic()
        await self.api.patch(f"{self.path}/{name}/status", {"status": self._succeeded()})
        return begun

    async def _create(self, number: int) -> Manifest:
        made = await self._accepted(self._manifest(number))
        running = {"status": self._running_status()}
        return await self.api.patch(f"{self.path}/{made['metadata']['name']}/status", running)

    async def _accepted(self, manifest: Manifest) -> Manifest:
        """Create an object. A controller that lost its lease while the API server was down starts again, and its
        webhook refuses objects until then.
        """
        until = time.monotonic() + _WEBHOOK_SECONDS
        while True:
            try:
                return await self.api.call("POST", self.path, manifest)
            except RuntimeError as error:
                if "failed calling webhook" not in str(error) or time.monotonic() > until:
                    raise
                await asyncio.sleep(1)

    async def _delete(self, name: str) -> None:
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        await self.api.call("DELETE", f"{self.path}/{name}", options)

    def _manifest(self, number: int) -> Manifest:
        """The object to make."""
        raise NotImplementedError

    def _running_status(self) -> Manifest:
        """The status of one that runs."""
        raise NotImplementedError

    def _succeeded(self) -> Manifest:
        """The status of one that has succeeded."""
        raise NotImplementedError


class TrainJobs(Population):
    """PyTorchJobs, as this provider makes them."""

    resource = PYTORCHJOB.resource
    kind: Kind = PYTORCHJOB

    def _manifest(self, number: int) -> Manifest:
        identity = Identity(dag_id="bench", run_id="manual__2026", task_id="train", map_index=number)
        order = order_of(self.kind, self.namespace, train_job(), identity)
        main = order.render(order.name, Facts()).main
        main["metadata"]["annotations"][labels.COMPLETE] = "true"
        main["spec"]["runPolicy"]["managedBy"] = ELSEWHERE
        return main

    def handle(self, name: str) -> dict[str, Any]:
        """The handle of one that runs, as its mapping."""
        return JobObject(self.kind, self.running[name]).handle(CONN_ID).model_dump(mode="json")

    def _running_status(self) -> Manifest:
        started = [_condition("Created"), _condition("Running")]
        return {"conditions": started, "startTime": now(), "replicaStatuses": {"Worker": {"active": 2}}}

    def _succeeded(self) -> Manifest:
        ended = [_condition("Created"), _condition("Running", "False"), _condition("Succeeded")]
        return {"conditions": ended, "completionTime": now(), "replicaStatuses": {"Worker": {"succeeded": 2}}}


class Pods(Population):
    """Pods that no scheduler takes."""

    resource = PODS

    def _manifest(self, number: int) -> Manifest:
        spec = {
            "schedulerName": "no-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "base", "image": _IMAGE, "command": ["python3", "/app/train.py"]}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec}

    def _running_status(self) -> Manifest:
        return {"phase": "Running", "startTime": now(), "containerStatuses": [self._container(running={})]}

    def _succeeded(self) -> Manifest:
        ended = self._container(terminated={"exitCode": 0, "reason": "Completed", "finishedAt": now()})
        return {"phase": "Succeeded", "containerStatuses": [ended]}

    def _container(self, **state: Any) -> Manifest:
        return {"name": "base", "image": _IMAGE, "imageID": "", "ready": "running" in state, "restartCount": 0} | {
            "state": {name: {"startedAt": now()} | value for name, value in state.items()}
        }


class Jobs(Population):
    """Kubernetes' own Jobs, which its controller leaves alone."""

    resource = JOBS

    def _manifest(self, number: int) -> Manifest:
        template = {
            "restartPolicy": "Never",
            "containers": [{"name": "base", "image": _IMAGE, "command": ["python3", "/app/train.py"]}],
        }
        spec = {"managedBy": "bench.test/none", "template": {"spec": template}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"job-{number}"}, "spec": spec}

    def _running_status(self) -> Manifest:
        return {"active": 1, "startTime": now()}

    def _succeeded(self) -> Manifest:
        conditions = [_condition("SuccessCriteriaMet"), _condition("Complete")]
        return {"active": 0, "succeeded": 1, "completionTime": now(), "conditions": conditions}


def _condition(name: str, status: str = "True") -> dict[str, str]:
    at = now()
    return {
        "type": name,
        "status": status,
        "reason": f"PyTorchJob{name}",
        "message": f"it is {name}",
        "lastTransitionTime": at,
    }


def some(names: Sequence[str], count: int) -> list[str]:
    """So many of them, from all over."""
    step = max(len(names) // count, 1) if count else 1
    return list(names[::step][:count])
