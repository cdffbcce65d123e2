"""Controllers' own manifests, with the few changes that this cluster needs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.profiles import Controller
from tests.cluster.shell import run

Manifest = dict[str, Any]

#: Patient with a controller on a busy machine: one that is not ready loses its webhooks, and one that is not live is
#: started again.
_PROBES = {
    "startupProbe": {"initialDelaySeconds": 1, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 120},
    "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 60},
    "livenessProbe": {"timeoutSeconds": 15},
}

# What must exist before the rest is accepted.
_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap", "ClusterRole", "Role")


def render(kubectl: Path, source: Path, controller: Controller) -> list[Manifest]:
    """Render a controller's manifests.

    :param kubectl: program with kustomize in it.
    :param source: folder of the controller's module.
    """
    with tempfile.TemporaryDirectory() as folder:
        # A module's own files are read-only, and kustomize must not leave the folder that it works on.
        top = controller.manifests.partition("/")[0]
        copy = Path(folder) / top
        shutil.copytree(source / top, copy, copy_function=shutil.copyfile)
        for path in copy.rglob("kustomization.yaml"):
            path.write_text(without_third_parties(path.read_text()))
        text = run(kubectl, "kustomize", Path(folder) / controller.manifests)
    return [document for document in yaml.safe_load_all(text) if document]


def without_third_parties(kustomization: str) -> str:
    """Drop resources that kustomize would fetch from elsewhere: what they install comes from a module of its own."""
    kept = [line for line in kustomization.splitlines() if not line.strip().startswith("- ../../third-party/")]
    return "\n".join(kept) + "\n"


def adapt(documents: list[Manifest], controller: Controller, image: str, images: Mapping[str, str]) -> None:
    """Change a controller's Deployment and its configuration, and drop what it is without, in place.

    No controller elects a leader, where it can do without: a leader that the API server does not answer for ten seconds
    exits, and after some times its next start is minutes away.

    :param image: name of the controller's image here.
    :param images: names of other images, for the controller's flags.
    :raises LookupError: when the manifests have no such Deployment.
    """
    documents[:] = [each for each in documents if not _is_left_out(each, controller.without)]
    for document in documents:
        if document["kind"] == "ConfigMap":
            for name, text in (document.get("data") or {}).items():
                document["data"][name] = text.replace("leaderElect: true", "leaderElect: false")
    deployment = next((each for each in documents if _is_deployment(each, controller.deployment)), None)
    if deployment is None:
        raise LookupError(f"{controller.manifests} of {controller.module} has no Deployment {controller.deployment}")
    # Without a leader, two of them may not run side by side.
    deployment["spec"]["strategy"] = {"type": "Recreate"}
    _adapt_container(deployment["spec"]["template"]["spec"]["containers"][0], controller, image, images)


def _is_left_out(document: Manifest, names: Sequence[str]) -> bool:
    return document["kind"] == "CustomResourceDefinition" and document["metadata"]["name"] in names


def _is_deployment(document: Manifest, name: str) -> bool:
    return bool(document["kind"] == "Deployment" and document["metadata"]["name"] == name)


def _adapt_container(container: Manifest, controller: Controller, image: str, images: Mapping[str, str]) -> None:
    container["image"] = image
    container["imagePullPolicy"] = "Never"
    own = [flag for flag in container.get("args", []) if flag not in ("--leader-elect", "--leader-elect=true")]
    container["args"] = [*own, *(flag.format(**images) for flag in controller.args)]
    # Their own requests (half a core each) would leave no room for jobs on a machine of two cores.
    container["resources"] = {"requests": {"cpu": "20m", "memory": "64Mi"}}
    for probe, settings in _PROBES.items():
        if probe in container:
            container[probe].update(settings)


def ordered(documents: list[Manifest]) -> list[Manifest]:
    """Manifests in an order in which the API server accepts them."""

    def rank(document: Manifest) -> int:
        kind = document["kind"]
        return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)

    return sorted(documents, key=rank)
