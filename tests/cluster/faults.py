"""Faults on the real thing: each breaks one part of the running cluster and mends it again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.network import NODE_NAME
from tests.cluster.node import wait_for
from tests.cluster.profiles import Controller


class Faults:
    """Breaks parts of the cluster on this machine.

    :param cluster: the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kubectl = cluster.kubectl

    @contextmanager
    def api_server_stopped(self) -> Iterator[None]:
        """No API server: connections are reset. It answers again when this returns."""
        self._cluster.node.stop("kube-apiserver", signal.SIGKILL)
        try:
            yield
        finally:
            self._cluster.start_component("kube-apiserver")
            self._cluster.wait_for_api()

    def restart_api_server(self) -> None:
        """Every connection breaks, and every watch has to be begun again."""
        with self.api_server_stopped():
            pass

    @contextmanager
    def etcd_frozen(self) -> Iterator[None]:
        """The API server takes requests and does not finish them."""
        self._cluster.node.send("etcd", signal.SIGSTOP)
        try:
            yield
        finally:
            self._cluster.node.send("etcd", signal.SIGCONT)
            self._cluster.wait_for_api()

    @contextmanager
    def kubelet_frozen(self) -> Iterator[None]:
        """The node does not answer: its containers run on, and after a minute its pods count as not ready."""
        self._cluster.node.send("kubelet", signal.SIGSTOP)
        try:
            yield
        finally:
            self._cluster.node.send("kubelet", signal.SIGCONT)
            self._cluster.settle()

    def kill_controller(self, controller: Controller) -> None:
        """End a controller's pod at once. Its Deployment makes another; see :meth:`wait_for_controller`."""
        for pod in self._pods(controller):
            self._kubectl.delete_pod(pod["metadata"]["name"], controller.namespace)
        self._release(controller)

    @contextmanager
    def controller_stopped(self, controller: Controller) -> Iterator[None]:
        """The controller's objects are not reconciled, and its webhooks do not answer."""
        self._scale(controller, 0)
        try:
            yield
        finally:
            self._scale(controller, 1)
            self.wait_for_controller(controller)

    def wait_for_controller(self, controller: Controller) -> None:
        """Wait until a controller's pod is ready."""
        # Not the Deployment's status, which still counts a pod that was killed a moment ago.
        wait_for(lambda: self._has_ready_pod(controller), f"a pod of {controller.deployment}", seconds=270)

    @contextmanager
    def node_unschedulable(self) -> Iterator[None]:
        """New pods stay pending."""
        self._kubectl("cordon", NODE_NAME)
        try:
            yield
        finally:
            self._kubectl("uncordon", NODE_NAME)

    def mend(self) -> None:
        """Undo what a test that was interrupted has left broken, and wait until all is well.

        Controllers that lose the API server for long give up and start again, so that may take a moment.
        """
        for name in ("etcd", "kubelet"):
            self._cluster.node.send(name, signal.SIGCONT)
        self._cluster.start_component("kube-apiserver")
        self._cluster.wait_for_api()
        self._kubectl("uncordon", NODE_NAME)
        self._cluster.settle()

    def _scale(self, controller: Controller, replicas: int) -> None:
        where = f"--namespace={controller.namespace}"
        self._kubectl("scale", where, f"deployment/{controller.deployment}", f"--replicas={replicas}")
        if replicas == 0:
            wait_for(lambda: not self._pods(controller), f"the end of {controller.deployment}", seconds=180)
            self._release(controller)

    def _release(self, controller: Controller) -> None:
        """Let another pod lead at once, and not when the lease of one that is gone has expired."""
        self._kubectl("delete", "leases", "--all", f"--namespace={controller.namespace}")

    def _has_ready_pod(self, controller: Controller) -> bool:
        ready = {"type": "Ready", "status": "True"}.items()
        return any(
            ready <= condition.items()
            for pod in self._pods(controller)
            for condition in pod["status"].get("conditions", [])
        )

    def _pods(self, controller: Controller) -> list[dict[str, Any]]:
        deployment = self._kubectl.get("deployment", controller.deployment, controller.namespace)
        if deployment is None:
            raise LookupError(f"the cluster has no {controller.deployment}: another profile is up")
        labels = deployment["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return self._kubectl.list("pods", controller.namespace, selector)
