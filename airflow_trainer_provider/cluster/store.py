"""What a watch has seen, found by key, and those who wait for it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.kinds.base import Manifest

#: Object -> the key that it is found by; None: nobody asks for it, and it is not kept.
KeyOf = Callable[[Manifest], "str | None"]


def by_name(manifest: Manifest) -> str | None:
    """The object's name, to find it by."""
    return str(manifest["metadata"]["name"])


@functools.cache
def by_label(label: str) -> KeyOf:
    """A function that gives an object's value of a label, to find it by. The same function for the same label.

    :param label: e.g. ``training.kubeflow.org/job-name``; objects without it are not kept.
    """
    return lambda manifest: (manifest["metadata"].get("labels") or {}).get(label)


class Store:
    """Objects by key. An event costs the same for any number of subscriptions: it wakes those of its key.

    All objects are kept, not only those that somebody is subscribed to: who subscribes later needs them too.

    :param key_of: object -> the key that it is found by.
    """

    def __init__(self, key_of: KeyOf) -> None:
        self._key_of = key_of
        self._keys: dict[str, str] = {}
        self._subscriptions: dict[str, set[Subscription]] = {}
        #: Key -> uid -> object.
        self.objects: dict[str, dict[str, Manifest]] = {}
        #: Whether the objects have been listed.
        self.synced = False
        #: What the API server keeps answering, where trying again does not help.
        self.refusal: ApiError | None = None

    @property
    def wanted(self) -> bool:
        """Whether anybody is subscribed."""
        return bool(self._subscriptions)

    @contextmanager
    def subscribe(self, key: str) -> Iterator[Subscription]:
        """Follow the objects of one key."""
        subscription = Subscription(self, key)
        self._subscriptions.setdefault(key, set()).add(subscription)
        if self.synced or self.refusal:
            subscription.wake()
        try:
            yield subscription
        finally:
            self._subscriptions[key].discard(subscription)
            if not self._subscriptions[key]:
                del self._subscriptions[key]

    def replace(self, manifests: Sequence[Manifest]) -> None:
        """Take a whole list: what is not in it is gone."""
        for manifest in manifests:
            self.put(manifest)
        for uid in self._keys.keys() - {manifest["metadata"]["uid"] for manifest in manifests}:
            self._drop(uid, None)
        if not self.synced:
            self.synced = True
            self._wake_all()

    def put(self, manifest: Manifest) -> None:
        """Take an object, or a new version of it."""
        metadata = manifest["metadata"]
        # Half of an object, and nothing to us.
        metadata.pop("managedFields", None)
        uid, key = metadata["uid"], self._key_of(manifest)
        if self._keys.get(uid, key) != key:
            self._drop(uid, None)
        if key is None:
            return
        known = self.objects.setdefault(key, {}).get(uid)
        if known is not None and known["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
            return
        self.objects[key][uid] = manifest
        self._keys[uid] = key
        self._wake(key)

    def remove(self, last: Manifest) -> None:
        """Drop an object that was deleted.

        :param last: its last version.
        """
        last["metadata"].pop("managedFields", None)
        self._drop(last["metadata"]["uid"], last)

    def refuse(self, refusal: ApiError) -> None:
        """Tell all subscribers that the API server keeps refusing."""
        self.refusal = refusal
        self._wake_all()

    def forget(self) -> None:
        """Be as new; subscriptions stay."""
        self.objects, self._keys, self.synced, self.refusal = {}, {}, False, None

    def _drop(self, uid: str, last: Manifest | None) -> None:
        key = self._keys.pop(uid, None)
        if key is None:
            return
        known = self.objects[key].pop(uid)
        if not self.objects[key]:
            del self.objects[key]
        for subscription in self._subscriptions.get(key, ()):
            subscription.gone[uid] = last or known
        self._wake(key)

    def _wake(self, key: str) -> None:
        for subscription in self._subscriptions.get(key, ()):
            subscription.wake()

    def _wake_all(self) -> None:
        for key in self._subscriptions:
            self._wake(key)


class Subscription:
    """One key's objects, as one waiting task sees them. One task waits; a second one needs a subscription of its own.

    :param store: where they are.
    :param key: which of them.
    """

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._changed = asyncio.Event()
        #: Last version, by uid, of each object that was deleted since the subscription began.
        self.gone: dict[str, Manifest] = {}

    @property
    def objects(self) -> dict[str, Manifest]:
        """The objects that are there now, by uid. They are shared: do not change them."""
        return dict(self._store.objects.get(self._key, {}))

    @property
    def synced(self) -> bool:
        """Whether the objects have been listed, so that none means none."""
        return self._store.synced

    async def changed(self) -> None:
        """Wait until something changed since the last call. The first call returns once the objects were listed.

        Trouble with the connection does not show here: the wait gets longer.

        :raises ApiError: the API server keeps refusing; the watch tries on, and so may the caller.
        """
        await self._changed.wait()
        self._changed.clear()
        refusal = self._store.refusal
        if refusal is not None:
            # A new one each time: one instance that is raised in many tasks gathers all their tracebacks.
            raise ApiError(
                str(refusal), status=refusal.status, reason=refusal.reason, retry_after=refusal.retry_after
            ) from refusal

    def wake(self) -> None:
        """Let :meth:`changed` return."""
        self._changed.set()
