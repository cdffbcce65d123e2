"""batch/v1 Jobs created outside Airflow. No spec is rendered as one: on plain Kubernetes, this provider creates Jobs
that a Service owns.

The Pods of an Indexed Job are distinguished by their index, and a Job that runs one Pod at a time has one replica. The
Pods of other Jobs cannot be distinguished: of such a Job only the Job itself is read.
https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.base import JOBS, ControllerStatus, Facts, Manifest, ReplicaRef
from airflow_trainer_provider.kinds.kind import Kind, ManifestRules, Retention, Suspension
from airflow_trainer_provider.kinds.manifest_check import check_count
from airflow_trainer_provider.kinds.merge_patch import bounded, merged
from airflow_trainer_provider.kinds.objects.pod import default_container
from airflow_trainer_provider.kinds.status.pod_end import parse_time

_GROUP = "worker"
_INDEX = "batch.kubernetes.io/job-completion-index"
#: Labels that the API server sets on the Pods of each Job; it rejects a Job with the labels of another Job.
_UIDS = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid"})
_GENERATED = _UIDS | {"job-name", "batch.kubernetes.io/job-name"}
#: Conditions of a Job whose outcome is decided. SuccessCriteriaMet and FailureTarget come before its last Pods are
#: gone.
_ENDS = {
    "SuccessCriteriaMet": JobPhase.SUCCEEDED,
    "Complete": JobPhase.SUCCEEDED,
    "FailureTarget": JobPhase.FAILED,
    "Failed": JobPhase.FAILED,
}


def read(main: Manifest, children: Sequence[Manifest]) -> ControllerStatus:
    """The status that a Job reports.

    :param main: the Job.
    :param children: always empty.
    """
    status, spec = main.get("status") or {}, main["spec"]
    started_at = _time(status.get("startTime"))
    held = {each["type"]: each for each in status.get("conditions") or () if each["status"] == "True"}
    for name, phase in _ENDS.items():
        if name in held:
            ended_at = _time(status.get("completionTime") or held[name].get("lastTransitionTime"))
            return ControllerStatus(phase, held[name].get("reason"), held[name].get("message"), started_at, ended_at)
    if spec.get("suspend"):
        return ControllerStatus(JobPhase.SUSPENDED, "JobSuspended", None, started_at)
    if groups(main):
        return ControllerStatus(started_at=started_at)
    # Its Pods cannot be distinguished, so the Job's own counts decide.
    return ControllerStatus(JobPhase.RUNNING if status.get("ready") else JobPhase.STARTING, started_at=started_at)


def groups(main: Manifest) -> Mapping[str, int]:
    """The number of replicas; empty where the Pods cannot be distinguished."""
    spec = main["spec"]
    if spec.get("completionMode") == "Indexed":
        return {_GROUP: spec.get("completions", 1)}
    return {_GROUP: 1} if _is_single(spec) else {}


def replica_ref(pod: Manifest, main: Manifest) -> ReplicaRef | None:
    """The replica that a Pod runs; None where it is unknown."""
    if main["spec"].get("completionMode") == "Indexed":
        index = (pod["metadata"].get("labels") or {}).get(_INDEX, "")
        return ReplicaRef(_GROUP, int(index)) if index.isdecimal() else None
    return ReplicaRef(_GROUP, 0) if _is_single(main["spec"]) else None


def _container(main: Manifest, group: str) -> str | None:
    return default_container(main["spec"].get("template") or {})


def check(main: Manifest) -> None:
    """Refuse a Job whose Pods cannot be distinguished, or counted.

    :param main: the user's own manifest.
    :raises SpecError: naming the field and the way out.
    """
    for name in ("completions", "parallelism"):
        check_count(main, "spec", name)
    if not groups(main):
        allowed = "'Indexed' where a Job has several Pods: without an index they cannot be distinguished"
        fix = "Set completionMode: Indexed, and completions and parallelism to the number of replicas."
        given = main["spec"].get("completionMode")
        shown = given if isinstance(given, str) else type(given).__name__
        raise SpecError([Problem("manifest.spec.completionMode", shown, allowed, fix)])


def as_new(main: Manifest) -> Manifest:
    """The Job without the selector and the labels that the API server generated for an earlier Job.

    :param main: the user's own manifest.
    """
    if main["spec"].get("manualSelector"):
        return main
    new = main
    for path in (("metadata",), ("spec", "template", "metadata")):
        new = _without(new, _GENERATED, *path, "labels")
    new = _without(new, _UIDS, "spec", "selector", "matchLabels")
    return merged(new, {"spec": {"selector": None}}) if new["spec"].get("selector") == {"matchLabels": {}} else new


def _without(value: Any, names: frozenset[str], *path: str) -> Any:
    """The value without some keys of the mapping at a path, if it has them."""
    if not isinstance(value, Mapping):
        return value
    if not path:
        return {name: each for name, each in value.items() if name not in names}
    first, *rest = path
    return {**value, first: _without(value[first], names, *rest)} if first in value else value


def _is_single(spec: Manifest) -> bool:
    return all(spec.get(name, 1) in (None, 0, 1) for name in ("completions", "parallelism"))


def _suspend(whether: bool) -> Manifest:
    return {"spec": {"suspend": whether}}


def _deadline(main: Manifest, seconds: int, facts: Facts) -> Manifest:
    return bounded(main, {"spec": {"activeDeadlineSeconds": seconds}})


def _ttl(seconds: int | None) -> Manifest:
    return {"spec": {"ttlSecondsAfterFinished": seconds}}


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


BATCH_JOB = Kind(
    key="job",
    resource=JOBS,
    frameworks=frozenset(),
    read=read,
    groups=groups,
    replica_ref=replica_ref,
    container=_container,
    pod_label="batch.kubernetes.io/job-name",
    suspension=Suspension(_suspend),
    retention=Retention(_ttl),
    manifests=ManifestRules(
        check=check,
        deadline=_deadline,
        # The names of a Job's Pods end with an index and five letters, their host names with the index only.
        name_limit=63 - len("-9999"),
        as_new=as_new,
    ),
)
