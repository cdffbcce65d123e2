"""The files of a job's function, in a ConfigMap that all pods of the job mount."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Manifest, Meta, Rendered

#: The folder in which the pods find the files.
FOLDER = "/etc/trainer-function"
_VOLUME = "trainer-function"
#: The suffix of the ConfigMap's name.
_SUFFIX = "-function"
#: The maximum length of a path within a key; a key has at most 253 characters.
_KEY_LENGTH = 200


def with_function(rendered: Rendered, job: JobPlan, meta: Meta) -> Rendered:
    """The objects of a job with the ConfigMap that holds its function; unchanged if the job has no function.

    :param rendered: the objects of the kind.
    :param job: the job.
    :param meta: the metadata of the job's objects.
    """
    if job.spec.function is None:
        return rendered
    files = job.spec.function.files
    config_map: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _name(meta), "labels": dict(meta.labels)},
        # A job's function does not change; the kubelets need not watch it.
        "immutable": True,
        "data": {key: files[path] for path, key in _keys(files).items()},
    }
    return replace(rendered, after=(config_map, *rendered.after))


def with_sizes(manifest: Manifest) -> Manifest:
    """An object of a job as it is shown to users: the ConfigMap of a function shows the sizes of its files instead of
    their contents, which may be confidential.

    :param manifest: any of the job's objects; all except that ConfigMap are returned unchanged.
    """
    if manifest["kind"] != "ConfigMap" or not manifest["metadata"]["name"].endswith(_SUFFIX):
        return manifest
    return {**manifest, "data": {key: f"<{len(text.encode())} bytes>" for key, text in manifest["data"].items()}}


def mount(template: Manifest, job: JobPlan, meta: Meta) -> None:
    """Mount the function, if the job has one, into a Pod's first container.

    :param template: the Pod's template.
    :param job: the job.
    :param meta: the metadata of the job's objects.
    """
    if job.spec.function is None:
        return
    spec = template["spec"]
    items = [{"key": key, "path": path} for path, key in _keys(job.spec.function.files).items()]
    spec["volumes"] = [
        *spec.get("volumes", []),
        {"name": _VOLUME, "configMap": {"name": _name(meta), "items": items}},
    ]
    container = spec["containers"][0]
    mounted = {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}
    container["volumeMounts"] = [*container.get("volumeMounts", []), mounted]


def _name(meta: Meta) -> str:
    return f"{meta.name}{_SUFFIX}"


def _keys(files: Collection[str]) -> dict[str, str]:
    """The key of each file. Numbers distinguish files whose paths are too long, or differ only in characters that are
    not allowed in a key.
    """
    names = {path: re.sub(r"[^-._a-zA-Z0-9]", "_", path.replace("/", "."))[:_KEY_LENGTH] for path in files}
    return {path: f"{number}.{names[path]}" for number, path in enumerate(sorted(files))}
