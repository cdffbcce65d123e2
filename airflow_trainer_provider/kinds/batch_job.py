"""batch/v1 Jobs that somebody else wrote. No spec becomes one: what we make on plain Kubernetes has a Service above it.

The Pods of an Indexed Job are told apart by their index, and so is the Pod of a Job that has one at a time. The Pods of
other Jobs have nothing to tell them apart by: of such a Job only the Job itself is read.
https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import JOBS, Facts, Kind, Manifest, Meta, Place, Rendered, Standing
from airflow_trainer_provider.kinds.pod_end import parse_time

_GROUP = "worker"
_INDEX = "batch.kubernetes.io/job-completion-index"
#: A Job whose end is decided says so before its last Pods are gone.
_ENDS = {
    "SuccessCriteriaMet": JobPhase.SUCCEEDED,
    "Complete": JobPhase.SUCCEEDED,
    "FailureTarget": JobPhase.FAILED,
    "Failed": JobPhase.FAILED,
}


def read(main: Manifest, children: Sequence[Manifest]) -> Standing:
    """What a Job says of itself.

    :param main: the Job.
    :param children: none.
    """
    status, spec = main.get("status") or {}, main["spec"]
    started_at = _time(status.get("startTime"))
    held = {each["type"]: each for each in status.get("conditions") or () if each["status"] == "True"}
    for name, phase in _ENDS.items():
        if name in held:
            ended_at = _time(status.get("completionTime") or held[name].get("lastTransitionTime"))
            return Standing(phase, held[name].get("reason"), held[name].get("message"), started_at, ended_at)
    if spec.get("suspend"):
        return Standing(JobPhase.SUSPENDED, "JobSuspended", None, started_at)
    if groups(main):
        return Standing(started_at=started_at)
    # Its Pods cannot say it.
    return Standing(JobPhase.RUNNING if status.get("ready") else JobPhase.STARTING, started_at=started_at)


def groups(main: Manifest) -> Mapping[str, int]:
    """How many replicas; none where they cannot be told apart."""
    spec = main["spec"]
    if spec.get("completionMode") == "Indexed":
        return {_GROUP: spec.get("completions", 1)}
    return {_GROUP: 1} if _is_single(spec) else {}


def place(pod: Manifest, main: Manifest) -> Place | None:
    """The replica that a Pod is; None where there is no telling."""
    if main["spec"].get("completionMode") == "Indexed":
        index = (pod["metadata"].get("labels") or {}).get(_INDEX, "")
        return (_GROUP, int(index)) if index.isdecimal() else None
    return (_GROUP, 0) if _is_single(main["spec"]) else None


def check(main: Manifest) -> None:
    """Refuse a Job whose Pods cannot be told apart.

    :param main: the user's own manifest.
    :raises SpecError: naming the field and the way out.
    """
    if not groups(main):
        allowed = "'Indexed' where a Job has several Pods: without an index they cannot be told apart"
        fix = "Set completionMode: Indexed, and completions and parallelism to the number of replicas."
        raise SpecError([Problem("manifest.spec.completionMode", main["spec"].get("completionMode"), allowed, fix)])


def _is_single(spec: Manifest) -> bool:
    return all(spec.get(name, 1) in (None, 0, 1) for name in ("completions", "parallelism"))


def _render(job: Job, meta: Meta, facts: Facts) -> Rendered:
    raise NotImplementedError("no spec becomes a Job of its own")


def _name_limit(job: Job) -> int:
    raise NotImplementedError("no spec becomes a Job of its own")


def _suspend(whether: bool) -> Manifest:
    return {"spec": {"suspend": whether}}


def _ttl(seconds: int) -> Manifest:
    return {"spec": {"ttlSecondsAfterFinished": seconds}}


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


BATCH_JOB = Kind(
    key="job",
    resource=JOBS,
    frameworks=frozenset(),
    render=_render,
    read=read,
    groups=groups,
    place=place,
    pod_label="batch.kubernetes.io/job-name",
    name_limit=_name_limit,
    suspend=_suspend,
    ttl=_ttl,
    # Its Pods' names end with an index and five letters; their host names with the index only.
    manifest_name_limit=63 - len("-9999"),
    manifest_check=check,
)
