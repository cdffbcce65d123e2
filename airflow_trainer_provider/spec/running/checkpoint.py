"""Where a training keeps its checkpoints, and which jobs share them."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from airflow_trainer_provider.spec.values.base import SpecModel, wrong
from airflow_trainer_provider.spec.values.paths import RelativePath
from airflow_trainer_provider.spec.volume_sources import ClaimName, NodePath

#: The sources, in the order in which errors and docs name them.
SOURCES = ("claim", "host_path")


class Checkpoint(SpecModel):
    """A folder for checkpoints, which is the same over restarts and tries. Exactly one source is given.

    :param claim: the name of a PersistentVolumeClaim that exists; clusters only.
    :param host_path: a folder that exists on the node that the pod runs on; on ``local`` one of this machine, which is
        made where it is missing.
    :param path: the folder within it below which the folders of all scopes are.
    :param scope: which jobs share a folder: those of all tries of a ``task`` of one run, of a whole ``run``, or of all
        runs of a ``dag``.
    """

    claim: ClaimName | None = None
    host_path: NodePath | None = None
    path: RelativePath | None = None
    scope: Literal["task", "run", "dag"] = "task"

    @model_validator(mode="after")
    def _one_source(self) -> Checkpoint:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            fix = "Drop one of them." if given else "Say where the checkpoints are kept."
            raise wrong(f"exactly one of {', '.join(SOURCES)}", fix, value=", ".join(given) or None)
        return self

    @property
    def source(self) -> str:
        """The name of the one source that is given."""
        return next(name for name in SOURCES if getattr(self, name) is not None)
