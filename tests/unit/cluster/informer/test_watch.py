"""The shared watch, step by step: which lists and watches it asks for, and when, after each answer.

The answers are scripted. What comes of them on an API server with objects of its own: test_watch_history.py.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from airflow_trainer_provider.cluster.answers import BAD_CERTIFICATE, SILENT
from airflow_trainer_provider.cluster.api.recovery import Backoff, Recovery
from airflow_trainer_provider.cluster.informer import watch as module
from airflow_trainer_provider.cluster.informer.store import by_involved
from airflow_trainer_provider.cluster.informer.watch import Watches, by_label
from airflow_trainer_provider.errors import ApiError, BackendUnavailable
from airflow_trainer_provider.job.signal import Signal
from airflow_trainer_provider.kinds.base import EVENTS, PODS
from airflow_trainer_provider.kinds.status.deletion import MISSED, SEEN, deletion_of
from airflow_trainer_provider.timeouts import with_timeout
from tests.unit.cluster.api_server import TIMEOUT

JOB = by_label("job")


def pod(name, version, job="a", uid=None, **status):
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version), "labels": {"job": job}}
    return {"metadata": {**metadata, "managedFields": [{"manager": "x"}]}, "status": status}


@dataclass
class Listing:
    items: list
    resource_version: str


@dataclass
class Event:
    type: str
    object: dict


async def ready():
    return 200


@dataclass
class ScriptedClient:
    """Answers lists and watches with what the test puts into the two queues; an exception is raised."""

    lists: asyncio.Queue = field(default_factory=asyncio.Queue)
    watches: asyncio.Queue = field(default_factory=asyncio.Queue)
    asked: list = field(default_factory=list)
    open: int = 0
    recovery: Recovery = field(default_factory=lambda: Recovery(ready))

    async def list(self, resource, namespace, *, label_selector="", field_selector="", keep):
        self.asked.append("list")
        answer = await self.lists.get()
        if isinstance(answer, Exception):
            raise answer
        return Listing([keep(each) for each in answer[1]], str(answer[0]))

    async def watch(self, resource, namespace, *, label_selector="", field_selector="", resource_version):
        self.asked.append(f"watch {resource_version}")
        self.open += 1
        try:
            while True:
                event = await self.watches.get()
                if isinstance(event, Exception):
                    raise event
                if event is None:
                    return
                yield Event(*event)
        finally:
            self.open -= 1

    def backoff(self, first, most, starting):
        return Backoff(self.recovery, first, most, starting)

    def says(self, *answers):
        for answer in answers:
            self.lists.put_nowait(answer)

    def sends(self, *events):
        for event in events:
            self.watches.put_nowait(event)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_FIRST", 0.001)
    monkeypatch.setattr(module, "BACKOFF_MOST", 0.001)


@pytest.fixture
def client():
    return ScriptedClient()


@pytest.fixture
async def watches(client):
    watches = Watches(client)
    yield watches
    await with_timeout(watches.close(), TIMEOUT)
    assert client.open == 0


def of(watches):
    return watches.of(PODS, "training", "app", JOB)


async def until(subscription, reached):
    """Wait for changes until it is so."""

    async def wait():
        while not reached():
            await subscription.changed()

    await with_timeout(wait(), TIMEOUT)


async def eventually(reached):
    """Let the other tasks run until it is so."""
    for _ in range(100_000):
        if reached():
            return
        await asyncio.sleep(0)
    pytest.fail("it did not come to that")


def names(subscription):
    return sorted(each["metadata"]["name"] for each in subscription.objects.values())


async def test_lists_once_then_follows(watches, client):
    client.says((5, [pod("a-0", 3), pod("b-0", 4, job="b")]))
    with of(watches).subscribe("a") as subscription:
        assert not subscription.synced
        await with_timeout(subscription.changed(), TIMEOUT)
        assert subscription.synced
        assert names(subscription) == ["a-0"]
        client.sends(("ADDED", pod("a-1", 6)), ("MODIFIED", pod("a-0", 7, phase="Running")))
        await until(subscription, lambda: subscription.objects["uid-a-0"]["status"])
        assert names(subscription) == ["a-0", "a-1"]
        client.sends(("DELETED", pod("a-0", 8, phase="Failed")))
        await until(subscription, lambda: subscription.gone)
        assert names(subscription) == ["a-1"]
        assert subscription.gone["uid-a-0"]["status"] == {"phase": "Failed"}
        assert deletion_of(subscription.gone["uid-a-0"]) == SEEN
    assert client.asked == ["list", "watch 5"]


async def test_what_is_kept_is_trimmed(watches, client):
    client.says((5, [pod("a-0", 3)]))
    client.sends(("ADDED", pod("a-1", 6)), ("DELETED", pod("a-0", 7)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.gone)
        kept = [*subscription.objects.values(), *subscription.gone.values()]
        assert len(kept) == 2
        assert not any("managedFields" in each["metadata"] for each in kept)


async def test_a_first_sync_without_objects_wakes(watches, client):
    client.says((5, []))
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
        assert subscription.synced
        assert subscription.objects == {}


@contextmanager
def contexts(watches, count):
    with ExitStack() as stack:
        yield [stack.enter_context(of(watches).subscribe(f"job-{n}")) for n in range(count)]


# It makes a thousand tasks at once, each of which has a traceback in asyncio's debug mode.
@pytest.mark.loop_errors
async def test_many_share_one_watch_and_wake_for_their_own_only(watches, client):
    client.says((1, [pod(f"job-{n}", 1, job=f"job-{n}") for n in range(1000)]))
    with contexts(watches, 1000) as subscriptions:
        for subscription in subscriptions:
            await with_timeout(subscription.changed(), TIMEOUT)
        waiting = [asyncio.create_task(subscription.changed()) for subscription in subscriptions]
        client.sends(("MODIFIED", pod("job-7", 2, job="job-7")))
        done, others = await asyncio.wait(waiting, timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        assert done == {waiting[7]}
        for task in others:
            task.cancel()
    assert client.asked == ["list", "watch 1"]


async def test_a_late_comer_has_the_state_at_once(watches, client):
    client.says((5, [pod("a-0", 3), pod("b-0", 4, job="b")]))
    with of(watches).subscribe("a") as first:
        await with_timeout(first.changed(), TIMEOUT)
        with of(watches).subscribe("b") as late:
            assert names(late) == ["b-0"]
            await with_timeout(late.changed(), TIMEOUT)
    assert client.asked.count("list") == 1


async def test_changes_coalesce(watches, client):
    client.says((5, []))
    with of(watches).subscribe("a") as subscription, of(watches).subscribe("b") as other:
        await with_timeout(subscription.changed(), TIMEOUT)
        await with_timeout(other.changed(), TIMEOUT)
        client.sends(*(("MODIFIED", pod("a-0", version)) for version in range(6, 106)))
        client.sends(("ADDED", pod("b-0", 200, job="b")))
        await until(other, lambda: other.objects)
        await with_timeout(subscription.changed(), TIMEOUT)
        assert subscription.objects["uid-a-0"]["metadata"]["resourceVersion"] == "105"
        waiting = asyncio.create_task(subscription.changed())
        client.sends(("ADDED", pod("b-1", 201, job="b")))
        await until(other, lambda: len(other.objects) == 2)
        assert not waiting.done()
        waiting.cancel()


async def test_an_expired_version_lists_again_and_finds_what_went(watches, client):
    client.says((5, [pod("a-0", 3, phase="Running"), pod("a-1", 4)]))
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
        client.says((50, [pod("a-1", 4), pod("a-2", 40)]))
        client.sends(ApiError("too old", status=410))
        await until(subscription, lambda: "uid-a-2" in subscription.objects and subscription.gone)
        assert names(subscription) == ["a-1", "a-2"]
        assert subscription.gone["uid-a-0"]["status"] == {"phase": "Running"}
        # What became of it meanwhile is not known.
        assert deletion_of(subscription.gone["uid-a-0"]) == MISSED
        client.sends(("ADDED", pod("a-3", 51)))
        await until(subscription, lambda: "uid-a-3" in subscription.objects)
    assert client.asked == ["list", "watch 5", "list", "watch 50"]


async def test_a_pod_made_again_under_its_name_is_another(watches, client):
    client.says((5, [pod("a-0", 3, uid="old")]))
    client.sends(("DELETED", pod("a-0", 6, uid="old")), ("ADDED", pod("a-0", 7, uid="new")))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: "new" in subscription.objects)
        assert set(subscription.gone) == {"old"}
        assert set(subscription.objects) == {"new"}


async def test_an_object_that_changes_its_key_goes_from_one_to_the_other(watches, client):
    client.says((5, [pod("x", 3)]))
    with of(watches).subscribe("a") as a, of(watches).subscribe("b") as b:
        await with_timeout(a.changed(), TIMEOUT)
        client.sends(("MODIFIED", pod("x", 6, job="b")))
        await until(b, lambda: b.objects)
        assert set(a.gone) == {"uid-x"}
        assert a.objects == {}


async def test_goes_on_where_a_broken_connection_left_off(watches, client):
    client.says((5, []))
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
        bookmark = {"metadata": {"resourceVersion": "9"}}
        client.sends(("ADDED", pod("a-0", 6)), ("BOOKMARK", bookmark), ApiError("reset"), ("ADDED", pod("a-1", 10)))
        await until(subscription, lambda: len(subscription.objects) == 2)
    assert client.asked == ["list", "watch 5", "watch 9"]


async def test_an_outage_is_logged_once_at_its_begin_and_once_at_its_end(watches, client, caplog):
    caplog.set_level(logging.INFO, logger=module.__name__)
    client.says((5, []))
    client.sends(*[ApiError("connection refused")] * 20, ("ADDED", pod("a-0", 6)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "connection refused" in caplog.text
    assert "pods in namespace training with app" in caplog.text


async def test_one_broken_connection_is_no_outage(watches, client, caplog):
    caplog.set_level(logging.INFO, logger=module.__name__)
    client.says((5, []))
    client.sends(ApiError("reset"), ("ADDED", pod("a-0", 6)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert caplog.text == ""


async def test_good_connections_that_break_are_no_outage_however_many(watches, client, caplog, monkeypatch):
    monkeypatch.setattr(module, "_TOO_SHORT", 0.0)
    caplog.set_level(logging.INFO, logger=module.__name__)
    client.says((5, []))
    client.sends(*[ApiError("reset")] * 20, ("ADDED", pod("a-0", 6)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert caplog.text == ""


async def test_an_expired_version_lists_at_once_also_after_an_outage_and_twice_in_a_row_pauses(watches, client):
    pauses = []

    async def wait(seconds, error):
        pauses.append(str(error))

    client.recovery.wait = wait
    client.says((5, []), (9, []), (9, [pod("a-0", 8)]))
    refused, expired = ApiError("connection refused"), ApiError("too old", status=410)
    client.sends(refused, refused, refused, expired, expired)
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
        client.says((20, [pod("a-0", 8), pod("a-1", 19)]))
        client.sends(("MODIFIED", pod("a-0", 10)), expired)
        await until(subscription, lambda: len(subscription.objects) == 2)
    assert pauses == ["connection refused"] * 3 + ["too old"]


async def test_a_version_that_expires_long_after_its_list_lists_at_once_each_time(watches, client, monkeypatch):
    listing, pauses = module.Watch._list, []

    async def long_ago(watch):
        await listing(watch)
        watch._listed_at -= 10

    async def wait(seconds, error):
        pauses.append(str(error))

    monkeypatch.setattr(module.Watch, "_list", long_ago)
    client.recovery.wait = wait
    client.says((5, []), (9, []), (9, [pod("a-0", 8)]))
    client.sends(*[ApiError("too old", status=410)] * 2)
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert pauses == []


async def test_a_watch_that_ends_at_once_is_an_error(watches, client, caplog):
    client.says((5, []))
    client.sends(None, None, None, ("ADDED", pod("a-0", 6)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert "ended the watch" in caplog.text


async def test_a_connection_that_leads_nowhere_is_a_refusal(watches, client, monkeypatch):
    monkeypatch.setattr(module, "REFUSED_FIRST", 0.0)
    client.says(BackendUnavailable("no such kubeconfig"))
    with of(watches).subscribe("a") as subscription, pytest.raises(ApiError, match="no such kubeconfig"):
        await with_timeout(subscription.changed(), TIMEOUT)


async def test_refusal_of_the_first_list_reaches_all_and_may_end(watches, client, monkeypatch):
    monkeypatch.setattr(module, "REFUSED_FIRST", 0.0)
    client.says(ApiError("pods is forbidden", status=403, reason="Forbidden"))
    with of(watches).subscribe("a") as subscription, of(watches).subscribe("b") as other:
        raised = []
        for each in (subscription, other):
            with pytest.raises(ApiError, match="pods is forbidden") as caught:
                await with_timeout(each.changed(), TIMEOUT)
            assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
            raised.append(caught.value)
        assert raised[0] is not raised[1]
        with of(watches).subscribe("c") as late, pytest.raises(ApiError, match="forbidden"):
            await with_timeout(late.changed(), TIMEOUT)
        client.says((5, [pod("a-0", 3)]))
        await until(subscription, lambda: subscription.objects)


@pytest.mark.parametrize("error", [ApiError("down"), ApiError("x", status=500), ApiError("x", status=429)])
async def test_an_error_that_goes_away_by_itself_never_reaches_a_subscriber(watches, client, monkeypatch, error):
    monkeypatch.setattr(module, "REFUSED_FIRST", 0.0)
    monkeypatch.setattr(module, "REFUSED_LATER", 0.0)
    client.says(*[error] * 10, (5, []))
    client.sends(*[error] * 10, ("ADDED", pod("a-0", 6)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)


async def test_a_momentary_refusal_is_waited_out(watches, client):
    client.says(*[ApiError("forbidden", status=403)] * 3, *[(5, [])] * 4)
    client.sends(*[ApiError("forbidden", status=403)] * 3, ("ADDED", pod("a-0", 6)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert client.asked[-1] == "watch 5"


@pytest.mark.parametrize(
    ("refusal", "seconds"),
    [
        (ApiError("forbidden", status=403), module.REFUSED_LATER),
        (ApiError("unauthorized", status=401), module.UNAUTHORIZED),
        (ApiError("certificate verify failed", reason=BAD_CERTIFICATE), module.UNAUTHORIZED),
    ],
    ids=str,
)
async def test_a_lasting_refusal_after_the_first_list_reaches_the_subscribers(
    watches, client, monkeypatch, refusal, seconds
):
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    client.says((5, [pod("a-0", 3)]))
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
        waiting = asyncio.create_task(subscription.changed())
        answer = client.says if refusal.status == 403 else client.sends
        client.sends(refusal)
        answer(refusal)
        await eventually(lambda: len(client.asked) == 4)
        now[0] = seconds - 1
        answer(refusal)
        await eventually(lambda: len(client.asked) == 5)
        assert not waiting.done()
        now[0] = seconds
        answer(refusal)
        with pytest.raises(ApiError, match=str(refusal)):
            await with_timeout(waiting, TIMEOUT)
        assert names(subscription) == ["a-0"]


async def test_where_watching_is_forbidden_one_list_serves_all_and_that_is_said_once(
    watches, client, monkeypatch, caplog
):
    monkeypatch.setattr(module, "REFUSED_FIRST", 0.0)
    monkeypatch.setattr(module, "POLL", 0.001)
    client.says(*[(5, [pod("a-0", 3)])] * 3, (6, [pod("a-0", 3), pod("b-0", 6, job="b")]))
    client.sends(ApiError("watch is forbidden", status=403))
    with of(watches).subscribe("a") as a, of(watches).subscribe("b") as b:
        await until(b, lambda: b.objects)
        assert names(a) == ["a-0"]
        client.says((7, []))
        await until(a, lambda: a.gone)
    assert client.asked[:3] == ["list", "watch 5", "list"]
    assert client.asked.count("watch 5") == 1
    assert caplog.text.count("is forbidden: they are listed every") == 1


async def test_a_right_to_watch_that_is_granted_later_is_used(watches, client, monkeypatch):
    monkeypatch.setattr(module, "REFUSED_FIRST", 0.0)
    monkeypatch.setattr(module, "POLL", 0.0)
    monkeypatch.setattr(module, "POLL_AT_MOST", 0.0)
    client.says((5, []), (6, []))
    client.sends(ApiError("watch is forbidden", status=403), ("ADDED", pod("a-0", 7)))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert client.asked == ["list", "watch 5", "list", "watch 6"]


async def test_a_stream_that_fell_silent_is_not_trusted(watches, client):
    client.says((5, []), (9, [pod("a-0", 8)]))
    client.sends(ApiError("timeout", reason=SILENT))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert client.asked[:3] == ["list", "watch 5", "list"]


async def test_an_object_of_several_keys_is_found_by_each(watches, client):
    event = {"metadata": {"name": "e", "uid": "u", "resourceVersion": "1"}, "involvedObject": {"name": "job-7-worker"}}
    client.says((5, [event]))
    with ExitStack() as stack:
        watch = watches.of(EVENTS, "training", "", by_involved, field_selector="type=Warning")
        found = [stack.enter_context(watch.subscribe(name)) for name in ("job-7", "job-7-worker", "job-77")]
        await with_timeout(found[2].changed(), TIMEOUT)
        assert [len(each.objects) for each in found] == [1, 1, 0]
        client.sends(("DELETED", event))
        await until(found[0], lambda: found[0].gone)
        assert [len(each.objects) for each in found] == [0, 0, 0]


async def test_one_signal_serves_several_subscriptions(watches, client):
    client.says((5, []))
    signal = Signal()
    with of(watches).subscribe("a", signal), of(watches).subscribe("b", signal):
        assert await signal.wait(5)
        client.sends(("ADDED", pod("b-0", 6, job="b")))
        assert await signal.wait(5)
        assert not await signal.wait(0.01)


async def test_an_error_of_its_own_does_not_end_it(watches, client, caplog):
    client.says((5, []), (7, [pod("a-0", 6)]))
    client.sends(("ADDED", {"metadata": {}}))
    with of(watches).subscribe("a") as subscription:
        await until(subscription, lambda: subscription.objects)
    assert "KeyError" in caplog.text


async def test_lingers_for_the_next_task(watches, client):
    client.says((5, []))
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
    assert client.asked == ["list", "watch 5"]


async def test_ends_after_its_last_subscription_and_starts_again(watches, client, monkeypatch):
    monkeypatch.setattr(module, "LINGER", 0.0)
    client.says((5, [pod("a-0", 3)]))
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
        await eventually(lambda: client.open)
    await eventually(lambda: not client.open)
    client.says((9, []))
    with of(watches).subscribe("a") as subscription:
        assert not subscription.synced
        await with_timeout(subscription.changed(), TIMEOUT)
        assert subscription.objects == {}
    assert client.asked == ["list", "watch 5", "list", "watch 9"]


async def test_who_is_subscribed_at_the_end_is_notified(client):
    watches = Watches(client)
    client.says((5, []))
    with of(watches).subscribe("a") as subscription:
        await with_timeout(subscription.changed(), TIMEOUT)
        await watches.close()
        with pytest.raises(ApiError, match="was ended"):
            await with_timeout(subscription.changed(), TIMEOUT)


def test_the_same_label_is_the_same_watch():
    assert by_label("job") is JOB
    assert by_label("other") is not JOB
