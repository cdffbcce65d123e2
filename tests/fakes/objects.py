"""The objects of an API server in memory, with the rules that races are decided by.

Versions, uids, preconditions, finalizers, graceful deletion of pods, and garbage collection by owner, which comes late
as in a real cluster. https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

import copy
import itertools
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from tests.fakes.selectors import Manifest, Refused, check_selectors, matches, merge

#: Plural, namespace, name.
Key = tuple[str, str, str]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
#: What the API server sets; of a new object it ignores what the client says of them.
_SERVERS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True)
class Event:
    """One change, as watches see it.

    :param before: the object as it was before the change; None where there was none.
    """

    version: int
    type: str
    plural: str
    object: Manifest
    before: Manifest | None


class Objects:
    """All objects of one cluster.

    :param changed: called after each change.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.all: dict[Key, Manifest] = {}
        self.events: list[Event] = []
        #: Watches from a version before this one get an answer that it has expired.
        self.oldest = 0
        self._versions = itertools.count(101)
        self._version = 100
        self._changed = changed

    @property
    def version(self) -> int:
        """The version of the newest change."""
        return self._version

    def get(self, key: Key) -> Manifest:
        """A copy of an object."""
        return copy.deepcopy(self._get(key))

    def find(self, plural: str, namespace: str | None, labels: str = "", fields: str = "") -> list[Manifest]:
        """Copies of all objects that match the selectors, by name."""
        check_selectors(plural, labels, fields)
        return [
            copy.deepcopy(manifest)
            for (kind, where, _), manifest in sorted(self.all.items())
            if kind == plural and namespace in (None, where) and matches(manifest, labels, fields)
        ]

    def create(self, plural: str, namespace: str, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object, as a client asks for it."""
        made = copy.deepcopy(manifest)
        metadata = made.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        name = metadata.get("name") or ""
        if not _NAME.fullmatch(name):
            raise Refused(422, "Invalid", f"metadata.name: Invalid value: {name!r}: name or generateName is required")
        if there := self.all.get((plural, namespace, name)):
            terminating = "object is being deleted: " if "deletionTimestamp" in there["metadata"] else ""
            raise Refused(409, "AlreadyExists", f'{terminating}{plural} "{name}" already exists')
        if metadata.get("namespace", namespace) != namespace:
            raise Refused(400, "BadRequest", "the namespace of the provided object does not match the request")
        if metadata.get("resourceVersion"):
            raise Refused(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        for reference in metadata.get("ownerReferences") or ():
            if not all(reference.get(field) for field in ("apiVersion", "kind", "name", "uid")):
                raise Refused(422, "Invalid", "metadata.ownerReferences: Required value")
        for field in _SERVERS:
            metadata.pop(field, None)
        metadata["namespace"] = namespace
        return made if dry_run else self.insert(plural, made)

    def insert(self, plural: str, manifest: Manifest) -> Manifest:
        """Have an object there; what the API server sets may be given."""
        made = copy.deepcopy(manifest)
        given = made["metadata"]
        made["metadata"] = {"uid": str(uuid.uuid4()), "creationTimestamp": _now(), "generation": 1, **given}
        return self._store("ADDED", plural, made)

    def patch(self, key: Key, patch: Manifest) -> Manifest:
        """Apply a JSON merge patch."""
        current = self._get(key)
        wanted = patch.get("metadata") or {}
        self._check(key, wanted.get("uid"))
        if wanted.get("resourceVersion") not in (None, current["metadata"]["resourceVersion"]):
            message = "the object has been modified; please apply your changes to the latest version and try again"
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on {key[0]} "{key[2]}": {message}')
        for field in ("name", "namespace"):
            if wanted.get(field, current["metadata"][field]) != current["metadata"][field]:
                raise Refused(400, "BadRequest", f"metadata.{field} does not match the request")
        merged = merge(current, patch)
        merged["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        if merged == current:
            return copy.deepcopy(current)
        merged["metadata"]["generation"] = current["metadata"].get("generation", 1) + (
            merged.get("spec") != current.get("spec")
        )
        changed = self._store("MODIFIED", key[0], merged)
        self._remove_if_released(key)
        return changed

    def delete(self, key: Key, uid: str | None = None, version: str | None = None, grace: float | None = None) -> None:
        """Delete an object in the background, or mark it where something holds it."""
        self._check(key, uid)
        current = self.get(key)
        metadata = current["metadata"]
        if version not in (None, metadata["resourceVersion"]):
            stale = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: "
            raise Refused(409, "Conflict", f"Precondition failed: {stale}{metadata['resourceVersion']}")
        seconds = self._grace(key[0], current) if grace is None else grace
        if metadata.get("finalizers") or seconds:
            if "deletionTimestamp" not in metadata:
                metadata.update(deletionTimestamp=_now(seconds), deletionGracePeriodSeconds=seconds)
                self._store("MODIFIED", key[0], current)
            return
        self._remove(key)

    def end_pod(self, key: Key) -> None:
        """What the kubelet does once a pod's containers have ended: the object goes."""
        self._remove(key)

    def orphans(self) -> list[Key]:
        """The objects whose owners are all gone."""
        uids = {(key[1], manifest["metadata"]["uid"]) for key, manifest in self.all.items()}
        return [
            key
            for key, manifest in self.all.items()
            if (owners := manifest["metadata"].get("ownerReferences"))
            and not any((key[1], owner["uid"]) in uids for owner in owners)
        ]

    def collect(self) -> None:
        """What the garbage collector does: delete the objects whose owners are all gone."""
        while orphans := [key for key in self.orphans() if "deletionTimestamp" not in self.all[key]["metadata"]]:
            for key in orphans:
                self.delete(key)

    def compact(self) -> None:
        """Forget all changes so far, as etcd does after minutes."""
        self.oldest = self._version
        self.events.clear()

    def _get(self, key: Key) -> Manifest:
        try:
            return self.all[key]
        except KeyError:
            raise Refused(404, "NotFound", f'{key[0]} "{key[2]}" not found') from None

    def _check(self, key: Key, uid: str | None) -> None:
        own = self._get(key)["metadata"]["uid"]
        if uid not in (None, own):
            message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
            raise Refused(409, "Conflict", message)

    def _store(self, change: str, plural: str, manifest: Manifest) -> Manifest:
        self._version = next(self._versions)
        metadata = manifest["metadata"]
        metadata["resourceVersion"] = str(self._version)
        key = (plural, metadata["namespace"], metadata["name"])
        before = self.all.get(key)
        if change == "DELETED":
            del self.all[key]
        else:
            self.all[key] = manifest
        self.events.append(Event(self._version, change, plural, copy.deepcopy(manifest), before))
        self._changed()
        return copy.deepcopy(manifest)

    def _remove(self, key: Key) -> None:
        self._store("DELETED", key[0], self.get(key))

    def _remove_if_released(self, key: Key) -> None:
        metadata = self.all[key]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and key[0] != "pods":
            self._remove(key)

    @staticmethod
    def _grace(plural: str, manifest: Manifest) -> float:
        if plural != "pods" or (manifest.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        return float((manifest.get("spec") or {}).get("terminationGracePeriodSeconds", 30))


def _now(ahead: float = 0) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")
