"""How many replicas a job has where its runtime says so, and not its main object."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import annotation
from airflow_trainer_provider.errors import ApiError, SpecError
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels

#: No right to read runtimes, or a runtime that is gone: the main object has to do.
_UNREADABLE = (403, 404)


async def job_object(cluster: Cluster, kind: Kind, main: Manifest) -> JobObject:
    """The job that a main object stands for, with what its runtime says of its replicas.

    :param cluster: where the job is.
    :param kind: of the main object.
    :param main: the main object.
    """
    return JobObject(kind, main, await _runtime_groups(cluster, kind, main))


async def _runtime_groups(cluster: Cluster, kind: Kind, main: Manifest) -> Mapping[str, int] | None:
    if kind.runtime_groups is None or annotation(main, labels.GROUPS) is not None:
        return None
    try:
        path = kind.runtime_groups.path(main, main["metadata"]["namespace"])
        runtime = await cluster.client.get_path(path) if path else {}
    except SpecError:
        # It starts from something that is not known here.
        return None
    except ApiError as error:
        if error.status not in _UNREADABLE:
            raise
        return None
    return kind.runtime_groups.groups(main, runtime)
