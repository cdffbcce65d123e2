"""What a watch notes of the deletion of an object: when that of a pod was asked for, and whether it was seen."""

from __future__ import annotations

from airflow_trainer_provider.kinds.base import Manifest

#: In the metadata of a watched pod: its deletion as it was asked for before the pod had ended.
FIRST_DELETION = "firstDeletion"
#: In the metadata of the last version of an object that is gone: whether the watch has seen that it was deleted, or has
#: not found it any more in a list. Between the version and that list anything may have become of it.
DELETION = "deletion"
SEEN, MISSED = "seen", "missed"
#: Finalizers by which the garbage collector deletes, or keeps, what an object owns. It goes soon.
_OF_GARBAGE_COLLECTOR = ("foregroundDeletion", "orphan")
_KEPT = ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")


def keep_first_deletion(manifest: Manifest, known: Manifest) -> None:
    """Keep when the deletion of a pod was asked for that had not ended: the kubelet's own request replaces it, once the
    pod has.

    :param manifest: the newer version, which is changed.
    :param known: the version before it.
    """
    before = known["metadata"]
    first = before.get(FIRST_DELETION)
    if first is None and _is_to_go(known):
        first = {name: before.get(name) for name in _KEPT}
    if first:
        manifest["metadata"][FIRST_DELETION] = first


def as_gone(last: Manifest, how: str) -> Manifest:
    """The last version of an object that is gone, with a note of how that is known.

    :param last: the version; it is left as it is.
    :param how: :data:`SEEN` or :data:`MISSED`.
    """
    return {**last, "metadata": {**last["metadata"], DELETION: how}}


def deletion_of(manifest: Manifest) -> str | None:
    """How it is known that an object is gone; None for one that is there."""
    how: str | None = manifest["metadata"].get(DELETION)
    return how


def held_by(main: Manifest) -> list[str]:
    """The finalizers of others that hold an object whose deletion was asked for.

    :param main: the object.
    """
    metadata = main["metadata"]
    finalizers = metadata.get("finalizers") or () if "deletionTimestamp" in metadata else ()
    return [name for name in finalizers if name not in _OF_GARBAGE_COLLECTOR]


def order_of_deletion(pod: Manifest) -> int:
    """Which of the pods that were deleted within one second was so first: smaller for an earlier one, 0 where it is not
    known.

    :param pod: as a watch has it.
    """
    version = str((pod["metadata"].get(FIRST_DELETION) or {}).get("resourceVersion") or "")
    # Kubernetes does not promise that versions are numbers; where they are, later ones are larger.
    return int(version) if version.isdecimal() else 0


def _is_to_go(known: Manifest) -> bool:
    phase = (known.get("status") or {}).get("phase")
    return "deletionTimestamp" in known["metadata"] and phase in ("Pending", "Running")
