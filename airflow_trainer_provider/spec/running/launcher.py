"""The launcher of a job's processes, and how MPI's starts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Tag

from airflow_trainer_provider.spec.values.base import SpecModel, name_or_mapping, wrong
from airflow_trainer_provider.spec.values.paths import AbsolutePath
from airflow_trainer_provider.spec.values.words import rendered_hint

LauncherName = Literal["auto", "none"]
OPEN_MPI = "OpenMPI"
#: What people call MPI's own launcher, which ``auto`` is.
_AUTO = frozenset({"mpirun", "mpiexec"})


class Launcher(SpecModel):
    """How MPI's launcher starts the processes; MPI only.

    :param name: ``auto``, for which ``mpirun`` stands as well, or ``none``.
    :param implementation: ``OpenMPI``, ``Intel`` or ``MPICH``: the options of mpirun, and the hostfile that it reads.
    :param is_node: whether the launcher is one of the nodes: it counts as one, has ``resources_per_node``, and ranks
        run there, too.
    :param ssh_mount_path: the folder in which ssh of the image looks for its keys, where the controller makes them.
    """

    name: LauncherName = "auto"
    implementation: Literal["OpenMPI", "Intel", "MPICH"] = "OpenMPI"
    is_node: bool = False
    ssh_mount_path: AbsolutePath | None = None


def _named(value: Any) -> Any:
    hint = rendered_hint(value) if isinstance(value, str) else None
    if hint:
        raise wrong("auto, none, or a mapping", hint, value="str")
    if not isinstance(value, Mapping):
        return value
    name = value.get("name")
    settings = {**value, "name": "auto"} if name is None or (isinstance(name, str) and name in _AUTO) else value
    return settings["name"] if settings.keys() == {"name"} and settings["name"] in ("auto", "none") else settings


#: A launcher's name, or a mapping of MPI's settings.
LauncherSettings = Annotated[
    Annotated[LauncherName, Tag("(name)")] | Annotated[Launcher, Tag("(mapping)")],
    name_or_mapping(Launcher),
    BeforeValidator(_named),
]
