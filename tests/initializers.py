"""A runtime with Trainer's initializers, as its own runtimes for fine-tuning have them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"


def with_initializers(
    runtime: Mapping[str, Any], *names: str, volume: Mapping[str, Any], command: list[str] | None = None
) -> dict[str, Any]:
    """A copy of a runtime whose nodes wait for initializers.

    :param runtime: with one step, of the nodes.
    :param names: of the initializers: ``dataset``, ``model``.
    :param volume: the source of the volume that initializers share with the nodes.
    :param command: what the initializers run, with the image of the nodes.
    """
    changed = copy.deepcopy(dict(runtime))
    (node,) = changed["spec"]["template"]["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]["spec"]
    mount = {"name": "initializer", "mountPath": "/workspace"}
    source = {"name": "initializer", **volume}
    steps = []
    for name in names:
        step = f"{name}-initializer"
        container = {
            "name": step,
            "image": pod["containers"][0]["image"],
            "command": command or ["python", "-m", f"pkg.initializers.{name}"],
            "env": [{"name": "STORAGE_URI", "value": "hf://of/the-runtime"}],
            "volumeMounts": [{**mount}],
        }
        template = {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": [copy.deepcopy(source)]}}
        metadata = {"labels": {_LABEL: step}}
        steps.append({"name": step, "template": {"metadata": metadata, "spec": {"template": template}}})
    pod["volumes"] = [*pod.get("volumes", ()), source]
    pod["containers"][0]["volumeMounts"] = [*pod["containers"][0].get("volumeMounts", ()), mount]
    node["dependsOn"] = [{"name": step["name"], "status": "Complete"} for step in steps]
    changed["spec"]["template"]["spec"]["replicatedJobs"] = [*steps, node]
    return changed
