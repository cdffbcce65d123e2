"""The objects that a watch has seen, by key, and the subscriptions that are notified of changes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence

from airflow_trainer_provider.errors import ApiError
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.status.deletion import MISSED, SEEN, as_gone, keep_first_deletion

#: How many objects are stored, or tasks woken, before the event loop runs other tasks.
_AT_ONCE = 10
#: Object -> the keys that it is found by. An object without keys is not kept.
KeysOf = Callable[[Manifest], Sequence[str]]


def by_name(manifest: Manifest) -> Sequence[str]:
    """The object's name, to find it by."""
    return (str(manifest["metadata"]["name"]),)


def by_involved(event: Manifest) -> Sequence[str]:
    """The keys of an event: the name of the object that it is about, and each beginning of that name up to a dash.

    Controllers name the objects of a job after the job, with a suffix.
    """
    words = str(event["involvedObject"].get("name") or "").split("-")
    return tuple("-".join(words[:count]) for count in range(1, len(words) + 1))


@functools.cache
def by_label(label: str) -> KeysOf:
    """A function that finds objects by the value of a label. The same label gives the same function.

    :param label: e.g. ``training.kubeflow.org/job-name``; objects without it are not kept.
    """

    def keys(manifest: Manifest) -> Sequence[str]:
        value = (manifest["metadata"].get("labels") or {}).get(label)
        return () if value is None else (value,)

    return keys


class Store:
    """Objects by key. An event costs the same for any number of subscriptions: it wakes only those of its keys.

    All objects are kept, not only those with a subscription: later subscriptions need them too.

    :param keys_of: object -> the keys that it is found by.
    """

    def __init__(self, keys_of: KeysOf) -> None:
        self._keys_of = keys_of
        self._keys: dict[str, Sequence[str]] = {}
        self._subscriptions: dict[str, list[Subscription]] = {}
        #: Key -> uid -> object.
        self.objects: dict[str, dict[str, Manifest]] = {}
        #: Whether the objects have been listed.
        self.synced = False
        #: The error that the API server keeps answering with, where another attempt does not help; else None.
        self.refusal: ApiError | None = None

    @property
    def has_subscriptions(self) -> bool:
        """Whether there is a subscription."""
        return bool(self._subscriptions)

    def subscribe(
        self, key: str, signal: Signal | None = None, on_close: Callable[[], None] = lambda: None
    ) -> Subscription:
        """Follow the objects of one key, until the subscription is closed.

        :param signal: what to set at each change, for a caller that waits for several subscriptions at once.
        :param on_close: called when the subscription is closed.
        """
        subscription = Subscription(self, key, signal or Signal(), on_close)
        self._subscriptions.setdefault(key, []).append(subscription)
        if self.synced or self.refusal:
            subscription.wake()
        return subscription

    def unsubscribe(self, key: str, subscription: Subscription) -> None:
        """Stop notifying a subscription."""
        others = [each for each in self._subscriptions.get(key, ()) if each is not subscription]
        if others:
            self._subscriptions[key] = others
        else:
            self._subscriptions.pop(key, None)

    async def replace(self, manifests: Sequence[Manifest]) -> None:
        """Replace all objects with those of a list, and yield to other tasks in between."""
        for number, manifest in enumerate(manifests):
            self.put(manifest)
            await _breathe(number)
        for uid in self._keys.keys() - {manifest["metadata"]["uid"] for manifest in manifests}:
            self._drop(uid, None)
        if not self.synced:
            self.synced = True
            for number, key in enumerate(list(self._subscriptions)):
                self._wake(key)
                await _breathe(number)

    def put(self, manifest: Manifest) -> None:
        """Store an object, or a new version of it."""
        metadata = manifest["metadata"]
        uid, keys = metadata["uid"], self._keys_of(manifest)
        if self._keys.get(uid, keys) != keys:
            self._drop(uid, None)
        if not keys:
            return
        known = self.objects.get(keys[0], {}).get(uid)
        if known is not None and known["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
            return
        if known is not None:
            keep_first_deletion(manifest, known)
        self._keys[uid] = keys
        for key in keys:
            self.objects.setdefault(key, {})[uid] = manifest
            if self.synced:
                self._wake(key)

    def remove(self, last: Manifest) -> None:
        """Drop an object that was deleted.

        :param last: its last version.
        """
        self._drop(last["metadata"]["uid"], last)

    def refuse(self, refusal: ApiError) -> None:
        """Notify all subscribers that the API server keeps refusing."""
        self.refusal = refusal
        self._wake_all()

    def forget(self) -> None:
        """Remove all objects; subscriptions stay."""
        self.objects, self._keys, self.synced, self.refusal = {}, {}, False, None

    def _drop(self, uid: str, last: Manifest | None) -> None:
        for key in self._keys.pop(uid, ()):
            known = self.objects[key].pop(uid)
            if last is not None:
                keep_first_deletion(last, known)
            if not self.objects[key]:
                del self.objects[key]
            gone = as_gone(known, MISSED) if last is None else as_gone(last, SEEN)
            for subscription in self._subscriptions.get(key, ()):
                subscription.gone[uid] = gone
            self._wake(key)

    def _wake(self, key: str) -> None:
        for subscription in self._subscriptions.get(key, ()):
            subscription.wake()

    def _wake_all(self) -> None:
        for key in self._subscriptions:
            self._wake(key)


async def _breathe(number: int) -> None:
    """Yield to other tasks of the event loop from time to time."""
    if number % _AT_ONCE == _AT_ONCE - 1:
        await asyncio.sleep(0)


class Subscription:
    """The objects of one key, for one waiting task. A second task needs a subscription of its own.

    Close it, or use it as a context manager.

    :param store: the store of the objects.
    :param key: the key of the objects.
    :param signal: set at each change.
    :param on_close: called when the subscription is closed.
    """

    # Slots save memory: each waiting job has several subscriptions.
    __slots__ = ("_key", "_on_close", "_signal", "_store", "gone")

    def __init__(self, store: Store, key: str, signal: Signal, on_close: Callable[[], None]) -> None:
        self._store = store
        self._key = key
        self._signal = signal
        self._on_close = on_close
        #: Last version, by uid, of each object that was deleted since the subscription began.
        self.gone: dict[str, Manifest] = {}

    @property
    def objects(self) -> dict[str, Manifest]:
        """The objects that exist now, by uid. They are shared: do not change them."""
        return dict(self._store.objects.get(self._key, {}))

    @property
    def synced(self) -> bool:
        """Whether the objects have been listed. Before that, an empty result does not mean that there are none."""
        return self._store.synced

    async def changed(self) -> None:
        """Wait until something changed since the last call. The first call returns once the objects were listed.

        An outage raises no error: the wait takes longer.

        :raises ApiError: the API server keeps refusing. The watch keeps trying, and the caller may call again.
        """
        await self._signal.wait()
        self.check()

    def check(self) -> None:
        """Raise the error that the API server keeps answering with, if it refuses.

        :raises ApiError: as for :meth:`changed`.
        """
        refusal = self._store.refusal
        if refusal is not None:
            # A new error each time: an instance that is raised in many tasks would collect all their tracebacks.
            raise ApiError(
                str(refusal), status=refusal.status, reason=refusal.reason, retry_after=refusal.retry_after
            ) from refusal

    def wake(self) -> None:
        """Notify the waiting task that something has changed."""
        self._signal.set()

    def close(self) -> None:
        """Stop following the objects."""
        self._store.unsubscribe(self._key, self)
        self._on_close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
