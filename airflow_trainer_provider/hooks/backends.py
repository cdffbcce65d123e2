"""The backends by name: those of this provider, and those that other packages register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from airflow_trainer_provider.errors import BackendUnavailable, SpecError
from airflow_trainer_provider.job.backend import Backend
from airflow_trainer_provider.spec.validation import choice

#: Runs jobs on the worker's own machine.
LOCAL = "local"
#: The default connection to a cluster.
DEFAULT_CONNECTION = "kubernetes_default"
#: Selects the first backend that the cluster has and that can run the job.
AUTO = "auto"
#: The names from :mod:`airflow_trainer_provider.kinds.registry`, which is not imported for the local backend.
CLUSTER_BACKENDS = ("trainer", "training-operator", "mpi-operator", "native")
#: The backends of this provider.
BACKENDS = (LOCAL, *CLUSTER_BACKENDS)
#: The group of entry points with which other packages register backends. An entry point has the backend's name, and
#: points to a :data:`BackendFactory`.
ENTRY_POINTS = "airflow_trainer_provider.backends"
#: (kubernetes_conn_id, namespace) -> a backend. Both values are the operator's. For an existing job both are empty: the
#: ``location`` of its handle has the job's place.
BackendFactory = Callable[[str, str | None], Backend]


class JobPlace(NamedTuple):
    """The place of an existing or a new job: the parameters of the hook that finds it.

    :param backend: the backend's name.
    :param kubernetes_conn_id: the ID of the connection to the cluster; None without a cluster.
    :param namespace: the namespace in the cluster; None without a cluster.
    """

    backend: str
    kubernetes_conn_id: str | None
    namespace: str | None

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items() if value)


def check_backend(field: str, name: str, *, fix: str = "Use one of these.", auto: bool = True) -> None:
    """Refuse the name of a backend that does not exist.

    :param field: the field that has the name.
    :param name: the field's value.
    :param fix: the remedy.
    :param auto: whether ``auto`` is allowed too.
    :raises SpecError: there is no backend with this name.
    """
    allowed = (AUTO, *BACKENDS) if auto else BACKENDS
    if name not in allowed and name not in (registered := _registered()):
        raise SpecError([choice(field, name, (*allowed, *registered), fix)])


def make_registered(name: str, conn_id: str, namespace: str | None) -> Backend:
    """A backend that another package has registered.

    :param name: the backend's name.
    :param conn_id: the operator's connection.
    :param namespace: the operator's namespace.
    :raises BackendUnavailable: the backend's package cannot be imported.
    """
    entry_point = _registered()[name]
    try:
        factory: BackendFactory = entry_point.load()
    except Exception as error:
        raise BackendUnavailable(
            f"Backend {name!r} is registered as {entry_point.value!r}, which cannot be loaded "
            f"({type(error).__name__}: {error}): correct or remove the package."
        ) from error
    return factory(conn_id, namespace)


def _registered() -> Mapping[str, EntryPoint]:
    # Not at import time: this reads the metadata of all installed packages.
    return {each.name: each for each in entry_points(group=ENTRY_POINTS) if each.name not in (AUTO, *BACKENDS)}
