"""Files that the replicas of a job read, in a ConfigMap of the job."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_trainer_provider.kinds.base import Manifest, Meta

#: The folder in which the replicas find the files.
FOLDER = "/etc/trainer-files"
#: The folder in which both operators that run mpirun put the hostfile.
MPI_FOLDER = "/etc/mpi"
_VOLUME = "trainer-files"


def config_map(meta: Meta, files: Mapping[str, str]) -> Manifest:
    """The ConfigMap with the files.

    :param meta: the metadata of the job's objects.
    :param files: name -> content.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _name(meta), "labels": dict(meta.labels)},
        "data": dict(files),
    }


def mount(template: Manifest, meta: Meta) -> None:
    """Mount the files into a Pod's first container.

    :param template: the Pod's template.
    :param meta: the metadata of the job's objects.
    """
    spec = template["spec"]
    spec["volumes"] = [*spec.get("volumes", []), {"name": _VOLUME, "configMap": {"name": _name(meta)}}]
    container = spec["containers"][0]
    mounted = {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}
    container["volumeMounts"] = [*container.get("volumeMounts", []), mounted]


def _name(meta: Meta) -> str:
    return f"{meta.name}-files"
