"""How many replicas a job has whose main object alone does not tell, because its runtime does."""

from __future__ import annotations

import json

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.objects import annotation
from airflow_trainer_provider.errors import ApiError, SpecError
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Kind, Manifest

#: No right to read runtimes, or a runtime that is gone: the main object has to do.
_NOT_TO_BE_HAD = (403, 404)


async def with_groups(cluster: Cluster, kind: Kind, main: Manifest) -> Manifest:
    """The main object, with what its runtime says of its replicas written on it: here, and not in the cluster.

    :param cluster: where the job is.
    :param kind: of the main object.
    :param main: the main object.
    """
    if kind.groups_with is None or kind.manifest_runtime is None or annotation(main, labels.GROUPS) is not None:
        return main
    try:
        path = kind.manifest_runtime(main, main["metadata"]["namespace"])
        runtime = await cluster.client.get_path(path) if path else {}
    except SpecError:
        # It starts from something that is not known here.
        return main
    except ApiError as error:
        if error.status not in _NOT_TO_BE_HAD:
            raise
        return main
    return _noted(main, json.dumps(kind.groups_with(main, runtime)))


def carried_over(known: Manifest, newer: Manifest) -> Manifest:
    """A newer version of a main object, with what :func:`with_groups` wrote on an earlier one.

    :param known: the earlier version.
    :param newer: the newer one.
    """
    groups = annotation(known, labels.GROUPS)
    return newer if groups is None or annotation(newer, labels.GROUPS) is not None else _noted(newer, groups)


def _noted(main: Manifest, groups: str) -> Manifest:
    """A main object with its groups written on it."""
    metadata = main["metadata"]
    annotations = {**(metadata.get("annotations") or {}), labels.GROUPS: groups}
    return {**main, "metadata": {**metadata, "annotations": annotations}}
