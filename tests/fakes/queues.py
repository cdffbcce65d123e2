"""Kueue's visibility API on the Workloads of an API server in memory."""

from __future__ import annotations

from aiohttp import web

from airflow_trainer_provider.kinds.base import Resource
from tests.fakes.objects import Key, Objects
from tests.fakes.selectors import Manifest, Refused

VISIBLE_QUEUES = Resource("visibility.kueue.x-k8s.io/v1beta1", "LocalQueue", "localqueues")


def pending_workloads(objects: Objects, key: Key, limit: int) -> web.Response:
    """Those that wait in a LocalQueue, in the order of their ClusterQueue, as Kueue 0.14 answers.

    :param objects: what the cluster holds.
    :param key: of the LocalQueue.
    :param limit: the most items.
    """
    _, namespace, name = key
    queues = {_queue_of(each): each["spec"]["clusterQueue"] for each in objects.find("localqueues", None)}
    cluster_queue = queues.get((namespace, name))
    if cluster_queue is None:
        raise Refused(404, "NotFound", f'localqueue.visibility.kueue.x-k8s.io "{name}" not found')
    waiting = [
        each
        for each in objects.find("workloads", None)
        if not _is_admitted(each)
        and each["spec"].get("active", True)
        and queues.get((each["metadata"]["namespace"], each["spec"]["queueName"])) == cluster_queue
    ]
    waiting.sort(key=lambda each: (-each["spec"].get("priority", 0), each["metadata"]["creationTimestamp"]))
    items: list[Manifest] = []
    for position, each in enumerate(waiting):
        # Queues of this name in other namespaces too.
        if each["spec"]["queueName"] == name and len(items) < limit:
            items.append(_item(each, len(items), position))
    return web.json_response(
        {"kind": "PendingWorkloadsSummary", "apiVersion": VISIBLE_QUEUES.api_version, "metadata": {}, "items": items}
    )


def _queue_of(queue: Manifest) -> tuple[str, str]:
    return queue["metadata"]["namespace"], queue["metadata"]["name"]


def _item(workload: Manifest, local: int, position: int) -> Manifest:
    kept = ("name", "namespace", "ownerReferences", "creationTimestamp")
    return {
        "metadata": {field: workload["metadata"][field] for field in kept if field in workload["metadata"]},
        "priority": workload["spec"].get("priority", 0),
        "localQueueName": workload["spec"]["queueName"],
        "positionInClusterQueue": position,
        "positionInLocalQueue": local,
    }


def _is_admitted(workload: Manifest) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in conditions)
