"""Reads labels, annotations and other metadata of the objects of a job."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from airflow_trainer_provider.job.identity import NAME_LENGTH, Identity
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.kind import Renderer
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.objects.tools import name_limit

#: Room for the suffix that distinguishes the names of jobs of one and the same try.
SUFFIX_LENGTH = 4


def base_name(renderer: Renderer, job: JobPlan, identity: Identity) -> str:
    """The name of the job of this try. Where it is taken, a number is appended to it.

    :param renderer: limits the length of the name.
    """
    limit = min(renderer.name_limit(job), name_limit(job), NAME_LENGTH)
    return identity.job_name(job.spec.name, limit - SUFFIX_LENGTH)


def annotation(main: Manifest, name: str) -> str | None:
    """One of an object's annotations."""
    value = (main["metadata"].get("annotations") or {}).get(name)
    return None if value is None else str(value)


def annotated(main: Manifest, values: Mapping[str, str | None]) -> Manifest:
    """The merge patch that sets annotations, if the object has not changed since it was read.

    :param main: the object, as it was read.
    :param values: by name; None removes an annotation.
    """
    return {"metadata": {"resourceVersion": main["metadata"]["resourceVersion"], "annotations": dict(values)}}


def is_ours(main: Manifest) -> bool:
    """Whether a task of this provider created the object."""
    return (main["metadata"].get("labels") or {}).get(labels.MANAGED_BY) == labels.PREFIX


def is_unowned_part(found: Manifest) -> bool:
    """Whether an object of this provider is a part of a job, and not yet owned by the job's main object."""
    return not found["metadata"].get("ownerReferences") and annotation(found, labels.IDENTITY) is None


def is_rendered(main: Manifest) -> bool:
    """Whether the object was made from a spec: neither created outside Airflow, nor from a user's manifest."""
    return is_ours(main) and annotation(main, labels.MANIFEST) is None


def identity_of(main: Manifest) -> Identity | None:
    """The task, and the try, that submitted the job; None where no task did, or the annotation cannot be read."""
    try:
        return Identity.model_validate_json(annotation(main, labels.IDENTITY) or "{}")
    except ValidationError:
        return None


def owner_of(main: Manifest) -> int:
    """The try that waits for the job; 0 where no try does, or the annotation cannot be read."""
    owner = annotation(main, labels.OWNER) or ""
    return int(owner) if owner.isdecimal() else 0


def is_being_deleted(main: Manifest) -> bool:
    """Whether the object is terminating."""
    return "deletionTimestamp" in main["metadata"]


def is_cancelled(main: Manifest) -> bool:
    """Whether a client has requested the job's end. The job keeps running until it is also deleted or suspended."""
    return annotation(main, labels.CANCELLED) is not None


def is_suspended_on_kill(main: Manifest) -> bool:
    """Whether the job is to be suspended when its task is killed, so that the next try resumes it."""
    return annotation(main, labels.ON_KILL) == "suspend"


def is_being_ended(main: Manifest) -> bool:
    """Whether the job is cancelled, or already terminating."""
    return is_cancelled(main) or is_being_deleted(main)


def owner_reference(owner: Manifest) -> Manifest:
    """The owner reference by which an object is deleted together with its owner.

    :param owner: the owner, as it was read.
    """
    metadata = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
