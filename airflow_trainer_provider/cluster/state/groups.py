"""How many replicas a job has, where its runtime says that and not its main object."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.state.job_object import JobObject
from airflow_trainer_provider.cluster.state.objects import annotation
from airflow_trainer_provider.errors import ApiError, SpecError
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kind import Kind
from airflow_trainer_provider.kinds.objects import labels

#: The account may not read runtimes, or the runtime is gone: only the main object is used.
_UNREADABLE = (403, 404)


async def job_object(cluster: Cluster, kind: Kind, main: Manifest) -> JobObject:
    """The job of a main object, with the number of replicas that its runtime gives it.

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
        # The job's runtime is of a kind that is not known here.
        return None
    except ApiError as error:
        if error.status not in _UNREADABLE:
            raise
        return None
    return kind.runtime_groups.groups(main, runtime)
