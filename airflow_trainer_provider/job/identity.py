"""Which task's job it is, and what it is called."""

from __future__ import annotations

import hashlib
import json
import re

from pydantic import BaseModel, ConfigDict

from airflow_trainer_provider.spec import ManifestSpec, TrainJobSpec

_READABLE_LENGTH = 32
#: The most characters of a job's name, where its backend sets no lower bound.
NAME_LENGTH = 48


class Identity(BaseModel):
    """The task that a job belongs to. All tries of a task share everything but ``try_number``.

    :param map_index: -1 for a task that is not mapped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1

    @property
    def key(self) -> str:
        """The same for all tries of this task, and for no other task."""
        parts = (self.dag_id, self.run_id, self.task_id, str(self.map_index))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]

    def job_name(self, readable: str | None = None, limit: int = NAME_LENGTH) -> str:
        """The name of this try's job: a DNS label.

        :param readable: what the name begins with; DAG and task by default.
        :param limit: the most characters that the name may have.
        """
        end = f"-{self.key}-{self.try_number}"
        room = min(_READABLE_LENGTH, limit - len(end))
        text = readable or f"{self.dag_id}-{self.task_id}"
        slug = re.sub(r"[^a-z0-9]+", "-", text.lower())[:room].strip("-")
        if not slug[:1].isalpha():
            slug = f"job-{slug}"
        return f"{slug[:room].rstrip('-')}{end}"


def spec_digest(spec: TrainJobSpec | ManifestSpec) -> str:
    """A short digest that is the same for equal specs only.

    :param spec: any spec.
    """
    # Sorted: mappings are equal in any order, and Airflow does not promise to keep that of a task's parameters.
    text = json.dumps(spec.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
