"""What a watch records about the deletion of an object: when a pod's deletion was requested, and whether the deletion
was seen.
"""

from __future__ import annotations

from airflow_trainer_provider.kinds.base import Manifest

#: In the metadata of a watched pod: the deletion that was requested before the pod had ended.
FIRST_DELETION = "firstDeletion"
#: In the metadata of the last version of an object that no longer exists: whether the watch has seen its deletion, or
#: has missed it and no longer found the object in a list. Between that version and that list, anything may have
#: happened to the object.
DELETION = "deletion"
SEEN, MISSED = "seen", "missed"
#: Finalizers of the garbage collector, which deletes or orphans the objects that an object owns. It removes them soon.
_OF_GARBAGE_COLLECTOR = ("foregroundDeletion", "orphan")
_KEPT = ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")


def keep_first_deletion(manifest: Manifest, known: Manifest) -> None:
    """Keep the time at which a pod's deletion was requested before the pod had ended: once it has ended, the kubelet's
    own request replaces that time.

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
    """The last version of an object that no longer exists, with a mark that says how this is known.

    :param last: the version; it is not changed.
    :param how: :data:`SEEN` or :data:`MISSED`.
    """
    return {**last, "metadata": {**last["metadata"], DELETION: how}}


def deletion_of(manifest: Manifest) -> str | None:
    """How it is known that an object no longer exists; None for an object that exists."""
    how: str | None = manifest["metadata"].get(DELETION)
    return how


def held_by(main: Manifest) -> list[str]:
    """The finalizers, except those of the garbage collector, that block the requested deletion of an object.

    :param main: the object.
    """
    metadata = main["metadata"]
    finalizers = metadata.get("finalizers") or () if "deletionTimestamp" in metadata else ()
    return [name for name in finalizers if name not in _OF_GARBAGE_COLLECTOR]


def order_of_deletion(pod: Manifest) -> int:
    """The order of pods that were deleted within the same second: smaller for an earlier deletion, 0 where it is
    unknown.

    :param pod: the pod, from a watch.
    """
    version = str((pod["metadata"].get(FIRST_DELETION) or {}).get("resourceVersion") or "")
    # Kubernetes does not promise that versions are numbers; where they are, later ones are larger.
    return int(version) if version.isdecimal() else 0


def _is_to_go(known: Manifest) -> bool:
    phase = (known.get("status") or {}).get("phase")
    return "deletionTimestamp" in known["metadata"] and phase in ("Pending", "Running")
