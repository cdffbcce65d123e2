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
#: The connection to a cluster, where none is named.
DEFAULT_CONNECTION = "kubernetes_default"
#: Looks what the cluster has.
AUTO = "auto"
#: The names in :mod:`airflow_trainer_provider.kinds.registry`, which the local backend does without.
CLUSTER_BACKENDS = ("trainer", "training-operator", "mpi-operator", "native")
#: Those of this provider.
BACKENDS = (LOCAL, *CLUSTER_BACKENDS)
#: The group of entry points under which other packages register backends. The name of an entry point is the backend's;
#: it points to a :data:`BackendFactory`.
ENTRY_POINTS = "airflow_trainer_provider.backends"
#: (kubernetes_conn_id, namespace) -> a backend. Both are as the operator has them, and empty for a job that exists: the
#: ``location`` of its handle says the rest.
BackendFactory = Callable[[str, str | None], Backend]


class JobPlace(NamedTuple):
    """Where a job is, or would be: the parameters of the hook that finds it.

    :param backend: the backend's name.
    :param kubernetes_conn_id: of the connection to the cluster; None without one.
    :param namespace: of the cluster; None without one.
    """

    backend: str
    kubernetes_conn_id: str | None
    namespace: str | None

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items() if value)


def check_backend(field: str, name: str, *, fix: str = "Use one of these.", auto: bool = True) -> None:
    """Refuse the name of a backend that does not exist.

    :param field: where the name stands.
    :param name: what stands there.
    :param fix: the way out.
    :param auto: whether ``auto`` is allowed too.
    :raises SpecError: there is none of that name.
    """
    allowed = (AUTO, *BACKENDS) if auto else BACKENDS
    if name not in allowed and name not in (registered := _registered()):
        raise SpecError([choice(field, name, (*allowed, *registered), fix)])


def make_registered(name: str, conn_id: str, namespace: str | None) -> Backend:
    """A backend that another package has registered.

    :param name: of the backend.
    :param conn_id: the operator's connection.
    :param namespace: the operator's namespace.
    :raises BackendUnavailable: its package cannot be imported.
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
    # Not at import: this reads the metadata of all packages that are installed.
    return {each.name: each for each in entry_points(group=ENTRY_POINTS) if each.name not in (AUTO, *BACKENDS)}
