"""The launcher of a job's processes, and the settings of MPI's launcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Tag

from airflow_trainer_provider.spec.values.base import SpecModel, name_or_mapping, wrong
from airflow_trainer_provider.spec.values.paths import AbsolutePath
from airflow_trainer_provider.spec.values.words import rendered_hint

LauncherName = Literal["auto", "none"]
OPEN_MPI = "OpenMPI"
#: Names of MPI's own launcher that users write for ``auto``.
_AUTO = frozenset({"mpirun", "mpiexec"})


class Launcher(SpecModel):
    """Settings of MPI's launcher; MPI only.

    :param name: ``auto``, which may also be written as ``mpirun``, or ``none``.
    :param implementation: ``OpenMPI``, ``Intel`` or ``MPICH``. It determines the options of mpirun, and the format of
        its hostfile.
    :param is_node: whether the launcher is also a node: it counts as one, has ``resources_per_node``, and runs ranks.
    :param ssh_mount_path: the folder in which the image's ssh looks for its keys, if the controller creates the keys.
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


#: The name of a launcher, or a mapping with the settings of MPI's launcher.
LauncherSettings = Annotated[
    Annotated[LauncherName, Tag("(name)")] | Annotated[Launcher, Tag("(mapping)")],
    name_or_mapping(Launcher),
    BeforeValidator(_named),
]
