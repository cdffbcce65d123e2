"""Identifies the task of a job, and derives the job's name."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from airflow_trainer_provider.spec import ManifestSpec, TrainJobSpec

_READABLE_LENGTH = 32
_LONGEST_FOLDER = 40
#: Hexadecimal digits of the key that all tries of a task share.
KEY_LENGTH = 10
#: The maximum length of a job's name, unless its backend sets a lower limit.
NAME_LENGTH = 48


class Identity(BaseModel):
    """The task that a job belongs to, and the try that submits it.

    :param map_index: -1 for a task that is not mapped.
    :param deployment: the Airflow deployment of the task, from ``[trainer] deployment``; None where the job was
        submitted by a version that did not record it.
    :param max_tries: how many tries the task may have. Airflow raises it each time the task is cleared, and at no other
        time; None where it was not recorded.
    :param run_started_at: when the task's run started: it distinguishes the run from a deleted run of the same id. None
        where it was not recorded. Airflow sets it again when the run is queued again, e.g. after a clear.
    """

    # A newer version may record more.
    model_config = ConfigDict(frozen=True, extra="ignore")

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1
    deployment: str | None = None
    max_tries: int | None = None
    run_started_at: datetime | None = None

    @property
    def task_instance(self) -> tuple[str, str, str, int]:
        """The task instance, whatever the deployment and the try: DAG, run, task and map index."""
        return self.dag_id, self.run_id, self.task_id, self.map_index

    @property
    def key(self) -> str:
        """A key that all tries of this task share, and no other task of any deployment has."""
        return self._key(self.deployment)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that jobs of this task may have: the keys of earlier versions do not depend on the deployment."""
        return tuple(dict.fromkeys((self.key, self._key(None))))

    def is_same_task(self, other: Identity) -> bool:
        """Whether another identity is of the same task, whatever its try.

        :param other: read from a job that has one of :attr:`keys`, which are short enough to collide.
        """
        return self.task_instance == other.task_instance and other.deployment in (None, self.deployment or "")

    def was_cleared_since(self, earlier: Identity) -> bool:
        """Whether the task was cleared after an earlier try had begun: the job of that try is not wanted any more.

        :param earlier: the identity of the earlier try.
        """
        return None not in (self.max_tries, earlier.max_tries) and self.max_tries != earlier.max_tries

    def is_same_run(self, earlier: Identity) -> bool:
        """Whether an earlier try belongs to this run, and not to a deleted run of the same id.

        :param earlier: the identity of the earlier try.
        """
        # The tries of another run count from 1 again. A run that was cleared or queued again also has another start
        # time.
        return not self._started_after(earlier) or self.try_number > earlier.try_number

    def why_ended(self, earlier: Identity) -> str:
        """Why this try ends the job of an earlier one that it does not adopt.

        :param earlier: the try that submitted the job.
        """
        if not self.is_same_run(earlier):
            return "its run was deleted, and another one has its id"
        if self.was_cleared_since(earlier):
            return "the task was cleared"
        return "the task was tried again with other parameters"

    def is_out_of_date(self, other: Identity, owner: int) -> bool:
        """Whether a job belongs to a later try of the task, so that this try is out of date.

        :param other: the try that submitted the job.
        :param owner: the number of the try that waits for it.
        """
        return other._started_after(self) or (owner > self.try_number and self.is_same_run(other))

    def _started_after(self, other: Identity) -> bool:
        own, others = self.run_started_at, other.run_started_at
        return own is not None and others is not None and own > others

    def _key(self, deployment: str | None) -> str:
        parts = (*map(str, self.task_instance), *([deployment] if deployment else []))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:KEY_LENGTH]

    def folder_name(self, scope: str) -> str:
        """The name of a folder that all jobs of a scope share, and no others: readable, and safe in any path.

        :param scope: ``task``: all tries of the task share the folder; ``run``: all tasks of the run; ``dag``: all runs
            of the DAG.
        """
        task = (self.task_id, *([str(self.map_index)] if self.map_index >= 0 else ()))
        parts = {"task": (self.dag_id, self.run_id, *task), "run": (self.dag_id, self.run_id), "dag": (self.dag_id,)}
        key = hashlib.sha256("\0".join((scope, self.deployment or "", *parts[scope])).encode()).hexdigest()[:16]
        slug = _slug("-".join((self.dag_id, *task) if scope == "task" else parts[scope]), _LONGEST_FOLDER)
        return f"{slug}-{key}" if slug else key

    def job_name(self, readable: str | None = None, limit: int = NAME_LENGTH) -> str:
        """The name of this try's job: a DNS label.

        :param readable: the beginning of the name; DAG and task by default.
        :param limit: the maximum length of the name.
        """
        end = f"-{self.key}-{self.try_number}"
        room = min(_READABLE_LENGTH, limit - len(end))
        text = readable or f"{self.dag_id}-{self.task_id}"
        slug = _slug(text, room)
        if not slug[:1].isalpha():
            slug = f"job-{slug}"
        return f"{slug[:room].rstrip('-')}{end}"


def _slug(text: str, most: int) -> str:
    """A text as lowercase letters and digits, with ``-`` between them; empty where it has none."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:most].strip("-")


def spec_digest(spec: TrainJobSpec | ManifestSpec) -> str:
    """A short digest that is the same only for specs that run the same.

    :param spec: any spec.
    """
    # Sorted, because mappings are equal in any order, and Airflow does not promise to keep the order of a task's
    # parameters. The setting for how a job's lines are read is left out: it does not change the job, so a running job
    # is adopted.
    values = spec.model_dump(mode="json", exclude_defaults=True, exclude={"metrics"})
    function = values.get("function", {})
    if "digest" in function:
        # A function's files contain its line numbers and the provider's own code, which may change while a job runs.
        del function["files"]
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
