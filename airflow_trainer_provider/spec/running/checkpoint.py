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
    """A folder for checkpoints that stays the same across restarts and tries. Exactly one source is set.

    :param claim: the name of an existing PersistentVolumeClaim; clusters only.
    :param host_path: an existing folder on the node that the pod runs on; on ``local`` a folder of this machine, which
        is created if it is missing.
    :param path: the folder within the source that contains the folders of all scopes.
    :param scope: which jobs share a folder: the jobs of all tries of a ``task`` in one run, of a whole ``run``, or of
        all runs of a ``dag``.
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
        """The name of the source that is set."""
        return next(name for name in SOURCES if getattr(self, name) is not None)
