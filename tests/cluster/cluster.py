"""The whole cluster: build, up, down."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import yaml

from tests.cluster import components, manifests, pins, pki
from tests.cluster.build import Binaries
from tests.cluster.components import Components
from tests.cluster.containerd import Store
from tests.cluster.debian import Packages
from tests.cluster.images import Images
from tests.cluster.kubectl import Kubectl
from tests.cluster.locks import BUILD, locked
from tests.cluster.network import API_PORT, NODE_NAME
from tests.cluster.node import Node, wait_for
from tests.cluster.paths import HERE, STATE
from tests.cluster.pins import digest
from tests.cluster.profiles import DEFAULT, PROFILES, Profile
from tests.cluster.shell import CommandFailed

#: For the tests and for people: the administrator of the cluster that is up.
KUBECONFIG = components.ADMIN
_LOCK = STATE.with_name("cluster.lock")
_DONE = STATE / "up.json"
#: Seconds in which a controller that has not suffered from a fault answers again; others get a new pod.
_SETTLED_WITHIN = 20
# A cluster made by other versions of these is not kept by `up`.
_MAKE_THE_CLUSTER = (
    "cgroups",
    "cluster",
    "components",
    "containerd",
    "manifests",
    "network",
    "node",
    "pki",
    "profiles",
    "supervisor",
)


class Cluster:
    """The cluster on this machine. There is at most one."""

    def __init__(self) -> None:
        self.pins = pins.load()
        self.packages = Packages(self.pins)
        self.binaries = Binaries(self.pins)
        self.images = Images(self.pins, self.binaries, self.packages)
        self.components = Components(self.binaries, self.packages)
        self.node = Node()
        self.kubectl = Kubectl(self.binaries.path("kubectl"), KUBECONFIG)

    def build(self) -> None:
        """Make everything that ``up`` needs and the cache lacks: the only step that needs a network."""
        with _locked():
            self._build()

    def missing(self) -> list[str]:
        """What ``build`` would have to make: packages, binaries and images that the cache lacks."""
        images = [f"the image {image.short}" for image in self.images.all() if not image.archive.exists()]
        return [*self.packages.missing(), *self.binaries.missing(), *images]

    def up(self, profile: Profile) -> None:
        """Have the cluster running with a profile's controllers answering, webhooks included.

        One that is running with the same content is kept; anything else that an earlier run left is ended first.
        """
        with _locked():
            self._build()
            if self._is_up(profile):
                return
            self.node.start()
            with ThreadPoolExecutor() as pool:
                rendered = pool.submit(self._render, profile)
                with _step("Kubernetes"):
                    self._start_kubernetes()
                with _step("images"):
                    self._import_images()
                with _step("node ready"):
                    self._wait_for_node()
                with _step("controllers"):
                    self._install(profile, rendered.result())
            with _step("webhooks"):
                self._probe(profile)
            _DONE.write_text(json.dumps({"profile": profile.name, "content": self._content(profile)}))

    def start_component(self, name: str) -> None:
        """Start a component of the node, unless it runs."""
        self.node.run(name, self.components.argv(name), self.components.env(name))

    def settle(self) -> None:
        """Wait until the API server and every controller answer again, after something was broken."""
        self.wait_for_api()
        profile = PROFILES[running_profile() or DEFAULT]
        try:
            self._wait_for_controllers(profile, seconds=_SETTLED_WITHIN)
            self._probe(profile, seconds=_SETTLED_WITHIN)
        except (CommandFailed, TimeoutError):
            # A controller that was without the API server for long may hang, or not be started again for minutes.
            for controller in profile.controllers:
                self.kubectl("delete", "pods", "--all", f"--namespace={controller.namespace}")
            self._wait_for_controllers(profile)
            self._probe(profile)

    def _build(self) -> None:
        self.packages.ensure()
        self.binaries.build()
        self.images.build()

    def _is_up(self, profile: Profile) -> bool:
        if running_profile() != profile.name or json.loads(_DONE.read_text())["content"] != self._content(profile):
            return False
        more = (components.COSCHEDULER,) if profile.gangs else ()
        running = all(self.node.alive(name) for name in (*components.API, *components.REST, *more))
        # A controller that an earlier run killed in the middle of a test is back by itself, or soon will be.
        return running and api_ready() and self._controllers_ready(profile)

    def _content(self, profile: Profile) -> str:
        files = [HERE / f"{name}.py" for name in _MAKE_THE_CLUSTER] + sorted((HERE / "manifests").glob("*.yaml"))
        sources = [file.read_text() for file in files]
        return digest(profile, sources, [image.name for image in self.images.all()])

    def _start_kubernetes(self) -> None:
        pki.write_all(components.PKI)
        self.components.write_files(self.images.pause.name)
        for name in components.API:
            self.start_component(name)
        self.wait_for_api()

    def _import_images(self) -> None:
        store = Store(self.packages)
        self._wait_for_containerd(store)
        store.forget_containers(lambda: self._restart_containerd(store))
        present = store.images()
        for image in self.images.all():
            if image.name not in present:
                store.import_archive(image.archive)
        for image in self.images.for_tests():
            store.tag(image.name, image.alias)
        aliases = {image.alias for image in self.images.for_tests()}
        store.keep_only(self.images.cached() | aliases)

    def _restart_containerd(self, store: Store) -> None:
        self.node.stop("containerd")
        self.start_component("containerd")
        self._wait_for_containerd(store)

    def _wait_for_containerd(self, store: Store) -> None:
        wait_for(store.answers, "containerd", seconds=90, log=self.node.log("containerd"))

    def wait_for_api(self) -> None:
        log = self.node.log("kube-apiserver")
        wait_for(api_ready, "the API server", seconds=270, log=log)

    def _wait_for_node(self) -> None:
        self.kubectl.apply([_cluster_role_binding("kube-proxy", "system:node-proxier", "system:kube-proxy")])
        for name in components.REST:
            self.start_component(name)
        ready = ("wait", "--for=condition=Ready", f"node/{NODE_NAME}", "--timeout=5s")
        wait_for(lambda: self.kubectl.ok(*ready), "the node", seconds=180, log=self.node.log("kubelet"))

    def _render(self, profile: Profile) -> list[dict[str, Any]]:
        names = {"tiny": self.images.tiny.name, "kubectl_delivery": self.images.kubectl_delivery.name}
        documents: list[dict[str, Any]] = []
        for controller in profile.controllers:
            source = self.binaries.source(controller.module)
            rendered = manifests.render(self.binaries.path("kubectl"), source, controller)
            manifests.adapt(rendered, controller, self.images.controllers[controller.module].name, names)
            documents += rendered
        if profile.gangs:
            documents += self._pod_groups()
        return manifests.ordered(documents)

    def _pod_groups(self) -> list[dict[str, Any]]:
        """What the second scheduler needs."""
        crd = self.binaries.source("scheduler-plugins") / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"
        return [yaml.safe_load(crd.read_text()), *read("coscheduler.yaml")]

    def _install(self, profile: Profile, documents: list[dict[str, Any]]) -> None:
        self.kubectl.apply_until_accepted(documents, seconds=180)
        if profile.gangs:
            self.start_component(components.COSCHEDULER)
        self._wait_for_controllers(profile)

    def _wait_for_controllers(self, profile: Profile, seconds: int = 360) -> None:
        wait_for(lambda: self._controllers_ready(profile), "the controllers", seconds=seconds, pause=0.5)

    def _controllers_ready(self, profile: Profile) -> bool:
        self.node.check()
        return all(
            self.kubectl.ok(
                "rollout", "status", f"--namespace={controller.namespace}",
                f"deployment/{controller.deployment}", "--timeout=5s",
            )
            for controller in profile.controllers
        )  # fmt: skip

    def _probe(self, profile: Profile, seconds: int = 270) -> None:
        for file in profile.objects:
            self.kubectl.apply_until_accepted(read(file), seconds=seconds)
        for file in profile.probes:
            self.kubectl.apply_until_accepted(read(file), "--dry-run=server", seconds=seconds)
        # An extension API that does not answer breaks discovery for everyone: namespaces could not be deleted.
        wait = ("wait", "--for=condition=Available", "apiservice", "--all", f"--timeout={seconds}s")
        self.kubectl(*wait, timeout=seconds + 10)


def api_ready() -> bool:
    """Whether the API server says that it is ready."""
    try:
        ask_api()
    except OSError:
        return False
    return True


def ask_api() -> None:
    """Ask the API server whether it is ready.

    Not through kubectl, which hides a reset connection behind ten seconds of retries.

    :raises OSError: when it does not answer, or is not ready.
    """
    trust = ssl.create_default_context(cafile=str(components.PKI / "ca.crt"))
    with urllib.request.urlopen(f"https://127.0.0.1:{API_PORT}/readyz", context=trust, timeout=5):
        pass


def read(file: str) -> list[dict[str, Any]]:
    """Documents of a file in manifests/."""
    return [document for document in yaml.safe_load_all((HERE / "manifests" / file).read_text()) if document]


def down() -> None:
    """End everything. Does nothing when nothing runs, and needs nothing that the cluster was built with."""
    with _locked():
        Node().end()


def running_profile() -> str | None:
    """Name of the profile of the cluster that is up, or None."""
    if not Node().running or not _DONE.exists():
        return None
    name: str = json.loads(_DONE.read_text())["profile"]
    return name


def status() -> str:
    """What runs, for people."""
    node = Node()
    if not node.running:
        return "No cluster is up."
    lines = [f"profile {running_profile() or 'not complete'}, KUBECONFIG={KUBECONFIG}"]
    for name, state in node.components().items():
        lines.append(f"  {name}: {'running' if state['exit'] is None else 'ended with ' + str(state['exit'])}")
    return "\n".join(lines)


def _cluster_role_binding(name: str, role: str, user: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


@contextmanager
def _locked() -> Iterator[None]:
    """One ``build``, ``up`` or ``down`` at a time on this machine."""
    with locked(_LOCK, BUILD):
        yield


@contextmanager
def _step(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - started:.1f} s", flush=True)
