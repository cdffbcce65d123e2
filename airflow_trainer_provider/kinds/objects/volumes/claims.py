"""The PersistentVolumeClaims that are created with a job.

A claim is either owned by the job's main object, and deleted with it; or it is kept, has the name that the user gave
it, and is reused by every job of the namespace that asks for the same claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import PERSISTENT_VOLUME_CLAIMS, Manifest, Meta, Rendered
from airflow_trainer_provider.kinds.objects.labels import JOB, KEPT, MANAGED_BY, PREFIX, TASK
from airflow_trainer_provider.spec.compute import parse_quantity
from airflow_trainer_provider.spec.volume_sources import NewClaim
from airflow_trainer_provider.spec.volumes import Volume

#: Labels by which a task finds the objects of its jobs. A kept claim belongs to no job.
_OF_A_JOB = (JOB, TASK)


def claim_name(volume: Volume, job_name: str) -> str:
    """The name of the claim that is created for a volume.

    :param volume: with a ``new_claim``.
    :param job_name: of the job.
    """
    kept = volume.new_claim is not None and volume.new_claim.keep
    return volume.pod_name if kept else f"{job_name}-{volume.pod_name}"


def with_claims(rendered: Rendered, job: JobPlan, meta: Meta) -> Rendered:
    """The objects of a job, with the claims that its volumes ask for.

    :param rendered: the objects that the job's kind has rendered.
    :param job: the job.
    :param meta: the metadata of its objects.
    """
    # Replicas with volumes of one name share one claim.
    volumes = {each.pod_name: each for replica in job.replicas for each in replica.volumes if each.new_claim}
    kept, owned = [], []
    for volume in volumes.values():
        if volume.new_claim and volume.new_claim.keep:
            labels = {name: value for name, value in meta.labels.items() if name not in _OF_A_JOB}
            kept.append(_claim(volume, volume.new_claim, Meta(claim_name(volume, meta.name), {**labels, KEPT: "true"})))
        elif volume.new_claim:
            owned.append(_claim(volume, volume.new_claim, Meta(claim_name(volume, meta.name), meta.labels)))
    # Before the objects that mount them.
    return replace(rendered, after=(*owned, *rendered.after), kept=(*rendered.kept, *kept))


def unusable(found: Manifest, wanted: Manifest) -> str | None:
    """Why a job cannot reuse an existing claim.

    :param found: the claim.
    :param wanted: the claim as the job would have created it.
    :return: the reason and the way out; None where the job can reuse the claim.
    """
    metadata = found["metadata"]
    if (metadata.get("labels") or {}).get(MANAGED_BY) != PREFIX or KEPT not in metadata["labels"]:
        return "it was not created by new_claim with keep: name it as claim to use it, or rename the volume"
    if "deletionTimestamp" in metadata:
        return "it is being deleted: try again once it is gone, or rename the volume"
    differences = list(_differences(found["spec"], wanted["spec"]))
    if differences:
        return f"it has {', '.join(differences)}: ask for what it has, rename the volume, or delete the claim"
    return None


def _differences(found: Manifest, wanted: Manifest) -> Iterator[str]:
    if set(found.get("accessModes") or ()) != set(wanted["accessModes"]):
        yield f"access modes {', '.join(found.get('accessModes') or ())} and not {', '.join(wanted['accessModes'])}"
    for field in ("volumeMode", "storageClassName"):
        # For a claim without a class, the cluster set its default class at creation.
        if field in wanted and found.get(field) != wanted[field]:
            yield f"{field} {found.get(field)} and not {wanted[field]}"
    size = ((found.get("resources") or {}).get("requests") or {}).get("storage", "0")
    if _bytes(size) < _bytes(wanted["resources"]["requests"]["storage"]):
        yield f"{size} and not {wanted['resources']['requests']['storage']}"


def _bytes(size: str) -> float:
    """The size that a claim asks for, in bytes; infinite where the API server has written it in a notation that this
    provider does not use.
    """
    try:
        return float(parse_quantity(size))
    except ValueError:
        return float("inf")


def _claim(volume: Volume, claim: NewClaim, meta: Meta) -> Manifest:
    spec: Manifest = {
        "accessModes": list(claim.access_modes),
        "resources": {"requests": {"storage": claim.size}},
        "volumeMode": claim.volume_mode,
    }
    if claim.storage_class is not None:
        spec["storageClassName"] = claim.storage_class
    return {
        "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "metadata": {"name": meta.name, "labels": dict(meta.labels)},
        "spec": spec,
    }
