"""What is written on a job's main object, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping

from airflow_trainer_provider.frameworks.layout import Job
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import NAME_LENGTH, Identity
from airflow_trainer_provider.kinds import labels
from airflow_trainer_provider.kinds.base import Kind, Manifest

#: Room for what tells the names of jobs of one and the same try apart.
SUFFIX_LENGTH = 3


def base_name(kind: Kind, job: Job, identity: Identity) -> str:
    """What the job of this try is called; with a number behind it where that name is taken.

    :param kind: which bounds its length.
    """
    return identity.job_name(job.spec.name, min(kind.name_limit(job), NAME_LENGTH) - SUFFIX_LENGTH)


def annotation(main: Manifest, name: str) -> str | None:
    """One of an object's annotations."""
    value = (main["metadata"].get("annotations") or {}).get(name)
    return None if value is None else str(value)


def annotated(main: Manifest, values: Mapping[str, str | None]) -> Manifest:
    """The merge patch that sets annotations, if nobody has changed the object since it was read.

    :param main: the object, as it was read.
    :param values: None removes one.
    """
    return {"metadata": {"resourceVersion": main["metadata"]["resourceVersion"], "annotations": dict(values)}}


def is_ours(main: Manifest) -> bool:
    """Whether a task of this provider made the object."""
    return (main["metadata"].get("labels") or {}).get(labels.MANAGED_BY) == labels.PREFIX


def is_rendered(main: Manifest) -> bool:
    """Whether the object, and what belongs to it, was made from a spec: neither somebody else's, nor a manifest."""
    return is_ours(main) and annotation(main, labels.MANIFEST) is None


def identity_of(main: Manifest) -> Identity:
    """The task, and the try, that made the job."""
    return Identity.model_validate_json(annotation(main, labels.IDENTITY) or "{}")


def owner_of(main: Manifest) -> int:
    """The try that waits for the job."""
    return int(annotation(main, labels.OWNER) or 0)


def is_being_ended(main: Manifest) -> bool:
    """Whether somebody wants the job to end, or has deleted it."""
    return annotation(main, labels.CANCELLED) is not None or "deletionTimestamp" in main["metadata"]


def groups_of(kind: Kind, main: Manifest) -> Mapping[str, int]:
    """How many replicas of each group, in the order of their ranks."""
    written = annotation(main, labels.GROUPS)
    return dict(json.loads(written)) if written else kind.groups(main)


def handle_of(backend: str, kind: Kind, main: Manifest, connection_id: str) -> JobHandle:
    """The handle of the job that an object stands for.

    :param backend: the backend's name.
    :param kind: of the object.
    :param main: the object.
    :param connection_id: of the connection by which it is reached.
    """
    metadata = main["metadata"]
    leader = next(iter(groups_of(kind, main)), "worker")
    only = next(iter(kind.frameworks)) if len(kind.frameworks) == 1 else ""
    return JobHandle(
        name=metadata["name"],
        uid=metadata["uid"],
        backend=backend,
        framework=annotation(main, labels.FRAMEWORK) or only,
        leader=f"{leader}-0",
        owner=owner_of(main),
        location=f"{kind.key}/{metadata['namespace']}/{connection_id}",
    )


def location_of(handle: JobHandle) -> tuple[str, str, str]:
    """Where a job is: the key of its kind, its namespace, and the id of its connection."""
    kind, namespace, connection_id = handle.location.split("/", 2)
    return kind, namespace, connection_id
