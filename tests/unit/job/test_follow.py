"""Following a job: its phases once, its lines all, and its end or the caller's."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest

from airflow_trainer_provider.errors import ApiError, JobLost, JobTimeout
from airflow_trainer_provider.job import follow as module
from airflow_trainer_provider.job.backend import LogLine, Tracked
from airflow_trainer_provider.job.follow import end_of, follow
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.progress.reporter import Reporter
from airflow_trainer_provider.job.progress.tracker import Tracker
from airflow_trainer_provider.job.queue.place import QueuePlace
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.timeouts import with_timeout

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
HANDLE = JobHandle(name="j", uid="u", backend="b", framework="f", leader="worker-0", owner=1, location="/l")
RUNNING = JobStatus(phase=JobPhase.RUNNING, queued_at=NOW)
REPLICA = ReplicaStatus(group="worker", index=0, started_at=NOW)
CHANGED = RUNNING.model_copy(update={"replicas": (ReplicaStatus(group="worker", index=0),)})
SUCCEEDED = RUNNING.model_copy(update={"phase": JobPhase.SUCCEEDED})
FAILED = RUNNING.model_copy(update={"phase": JobPhase.FAILED})
#: Seconds that a wait may take which is over at once, on a machine that stalls.
_BOUND = 30


class _Backend:
    replicas = ("worker-0", "worker-1")

    def __init__(self, *statuses, error=None):
        self.statuses, self.error = statuses, error
        self.cancelled = []

    async def cancel(self, handle, reason, *, resumable=True):
        self.cancelled.append(reason)
        self.resumable = resumable
        return True

    async def status(self, handle):
        return self.statuses[-1]

    async def watch(self, handle):
        for status in self.statuses:
            yield status
        if self.error:
            raise self.error
        if not self.statuses[-1].phase.ended:
            await asyncio.Event().wait()

    async def logs(self, handle, reader, ended):
        for replica in self.replicas:
            # Slower than the statuses: the end is known long before the last line has come.
            await asyncio.sleep(0.02)
            yield LogLine(replica, "hello")


async def _follow(backend, lines, deadline=None, **options):
    return await follow(backend, HANDLE, emit=lines.append, deadline=deadline, **({"reader": "r"} | options))


async def test_phases_once_and_all_lines_before_the_end():
    lines = []

    assert await _follow(_Backend(RUNNING, CHANGED, RUNNING, SUCCEEDED), lines) == SUCCEEDED

    assert lines == [
        "Training job j: running.",
        "[worker-0] hello",
        "[worker-1] hello",
        "Training job j: succeeded.",
    ]


async def test_the_place_in_a_queue_is_emitted_now_and_then():
    queued = RUNNING.model_copy(update={"phase": JobPhase.QUEUED})
    places = [QueuePlace(name="q", position=position) for position in (9, 8, 7, 4, 3, 1)]
    lines = []

    await _follow(_Backend(*(queued.model_copy(update={"queue": each}) for each in places), SUCCEEDED), lines)

    assert lines == [
        "Training job j: queued.",
        "Training job j: position 9 in queue q.",
        "Training job j: position 4 in queue q.",
        "Training job j: position 1 in queue q.",
        "Training job j: succeeded.",
    ]


async def test_an_address_is_emitted_once_a_replica_has_a_node():
    handle = HANDLE.model_copy(update={"tools": {"tb": "http://<node>:31000/", "lab": "http://lab.example/"}})
    statuses = [each.model_copy(update={"node_address": "10.0.0.4"}) for each in (CHANGED, RUNNING, SUCCEEDED)]
    lines = []

    await follow(_Backend(RUNNING, *statuses), handle, emit=lines.append, reader=None, deadline=None)

    assert lines == ["Training job j: running.", "Tool tb: http://10.0.0.4:31000/", "Training job j: succeeded."]


async def test_the_leaders_lines_only_or_none():
    lines, phases, ended = [], [], SUCCEEDED.model_copy(update={"replicas": (REPLICA,)})
    await _follow(_Backend(ended), lines, leader_only=True)
    await _follow(_Backend(ended), phases, reader=None)

    assert lines == ["[worker-0] hello", "Training job j: succeeded."]
    assert phases == ["Training job j: succeeded."]


async def test_a_deadline_that_passes_ends_the_wait():
    soon = datetime.now(timezone.utc) + timedelta(seconds=0.05)

    with pytest.raises(JobTimeout, match="j had not ended"):
        await with_timeout(_follow(_Backend(RUNNING), [], deadline=soon), _BOUND)


@pytest.mark.parametrize("error", [TimeoutError("the network"), JobLost("gone")])
async def test_the_backends_own_errors_are_no_deadline(error):
    later = datetime.now(timezone.utc) + timedelta(seconds=30)

    with pytest.raises(type(error), match=str(error)):
        await _follow(_Backend(RUNNING, error=error), [], deadline=later)


class _Stuck(_Backend):
    """Never starts, says so once, and is gone some time after its end was requested."""

    def __init__(self, status, at_the_end):
        super().__init__(status)
        self.ending, self.at_the_end = asyncio.Event(), at_the_end

    async def cancel(self, handle, reason, *, resumable=True):
        self.ending.set()
        return await super().cancel(handle, reason, resumable=resumable)

    async def watch(self, handle):
        yield self.statuses[0]
        await self.ending.wait()
        if isinstance(self.at_the_end, JobLost):
            raise self.at_the_end
        yield self.at_the_end

    async def logs(self, handle, reader, ended):
        await self.ending.wait()
        yield LogLine("worker-0", "goodbye")


class _Unreadable(_Backend):
    """Its lines cannot be read for some times."""

    def __init__(self, *statuses, times):
        super().__init__(*statuses)
        self.times = times

    async def logs(self, handle, reader, ended):
        yield LogLine("worker-0", "hello")
        if self.times:
            self.times -= 1
            raise OSError(5, "Input/output error")
        yield LogLine("worker-0", "goodbye")


async def test_lines_that_cannot_be_read_fail_no_job_and_are_named():
    lines = []

    assert await _follow(_Unreadable(RUNNING, SUCCEEDED, times=9), lines) == SUCCEEDED

    assert lines == [
        "Training job j: running.",
        "[worker-0] hello",
        "... reading the lines of training job j has failed, and is tried again: OSError: [Errno 5] Input/output error",
        "[worker-0] hello",
        "... the rest of the lines of training job j is missing here: OSError: [Errno 5] Input/output error",
        "Training job j: succeeded.",
    ]


async def test_lines_that_could_not_be_read_for_a_while_are_read_again(monkeypatch):
    assert module._READ_AGAIN == 30
    monkeypatch.setattr(module, "_READ_AGAIN", 0.001)
    lines, read = [], asyncio.Event()

    def emit(line):
        lines.append(line)
        if "goodbye" in line:
            read.set()

    backend = _Unreadable(RUNNING, times=3)
    wait = asyncio.ensure_future(follow(backend, HANDLE, emit=emit, reader="r", deadline=None))
    await with_timeout(read.wait(), _BOUND)
    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)

    assert [line for line in lines if line.startswith("...")] == [lines[2]]


async def test_the_end_of_a_job_whose_lines_cannot_be_read_is_not_kept_back(monkeypatch):
    monkeypatch.setattr(module, "_READ_AGAIN", 3600)

    assert await with_timeout(_follow(_Unreadable(RUNNING, SUCCEEDED, times=9), []), _BOUND) == SUCCEEDED


async def test_lines_that_cannot_be_written_fail_no_job_and_are_counted():
    lines, room = [], 2

    def emit(line):
        nonlocal room
        room -= 1
        if room in (0, -1, -2):
            raise OSError(28, "No space left on device")
        lines.append(line)

    assert await follow(_Backend(RUNNING, SUCCEEDED), HANDLE, emit=emit, reader="r", deadline=None) == SUCCEEDED

    assert lines == ["Training job j: running."]
    room, lines[:] = 2, []
    backend = _Backend(RUNNING, SUCCEEDED)
    backend.replicas = [f"worker-{number}" for number in range(6)]
    await follow(backend, HANDLE, emit=emit, reader="r", deadline=None)
    assert lines == [
        "Training job j: running.",
        "... 3 lines are missing here: they could not be written",
        "[worker-3] hello",
        "[worker-4] hello",
        "[worker-5] hello",
        "Training job j: succeeded.",
    ]


async def test_a_cancelled_wait_is_cancelled_also_while_lines_are_read():
    class Slow(_Backend):
        async def logs(self, handle, reader, ended):
            yield LogLine("worker-0", "hello")
            await asyncio.Event().wait()

    wait = asyncio.ensure_future(_follow(Slow(RUNNING, SUCCEEDED), []))
    await asyncio.sleep(0.01)
    wait.cancel()

    with pytest.raises(asyncio.CancelledError):
        await wait


@pytest.mark.parametrize("at_the_end", [RUNNING.model_copy(update={"phase": JobPhase.CANCELLED}), JobLost("gone")])
async def test_a_job_that_does_not_start_in_time_is_ended_and_has_failed(at_the_end):
    late = datetime.now(timezone.utc) - timedelta(seconds=60)
    starting = JobStatus(phase=JobPhase.STARTING, queued_at=late, waiting_since=late)
    backend, lines = _Stuck(starting, at_the_end), []

    status = await _follow(backend, lines, startup_timeout=0.05)

    assert (status.phase, status.reason) == (JobPhase.FAILED, "StartupTimeout")
    assert backend.cancelled == [f"it cannot start: StartupTimeout: {status.message}"]
    assert not backend.resumable
    assert lines == [
        "Training job j: starting.",
        "[worker-0] goodbye",
        f"Training job j: failed (StartupTimeout: {status.message}).",
    ]


@pytest.mark.parametrize("bound", ["deadline", "timeout"])
async def test_a_job_that_cannot_start_and_does_not_end_either_is_not_waited_for_without_end(monkeypatch, bound):
    late = datetime.now(timezone.utc) - timedelta(seconds=60)
    backend = _Backend(JobStatus(phase=JobPhase.STARTING, queued_at=late, waiting_since=late))
    monkeypatch.setattr(module, "_ENDED_SECONDS", 0.2 if bound == "timeout" else 3600)
    deadline = datetime.now(timezone.utc) + timedelta(seconds=2 if bound == "deadline" else 3600)

    status = await with_timeout(_follow(backend, [], deadline, startup_timeout=0.05), _BOUND)

    assert (status.phase, status.reason) == (JobPhase.FAILED, "StartupTimeout")
    assert len(backend.cancelled) == 1


async def test_the_last_look_at_a_job_that_cannot_start_is_over_at_the_deadline():
    class Silent(_Backend):
        async def status(self, handle):
            await asyncio.sleep(5)
            return await super().status(handle)

    late = datetime.now(timezone.utc) - timedelta(seconds=60)
    backend = Silent(JobStatus(phase=JobPhase.STARTING, queued_at=late, waiting_since=late))
    deadline = datetime.now(timezone.utc) + timedelta(seconds=1)

    with pytest.raises(JobTimeout):
        await with_timeout(_follow(backend, [], deadline, startup_timeout=0.05), 60)


async def test_a_job_that_cannot_start_and_belongs_to_a_later_try_is_not_waited_for():
    class Later(_Backend):
        async def cancel(self, handle, reason, *, resumable=True):
            return False

    late = datetime.now(timezone.utc) - timedelta(seconds=60)
    backend = Later(JobStatus(phase=JobPhase.STARTING, queued_at=late, waiting_since=late))

    status = await with_timeout(_follow(backend, [], startup_timeout=0.05), _BOUND)

    assert status.phase is JobPhase.FAILED


async def test_a_job_that_waits_for_long_without_a_timeout_is_left_alone():
    late = datetime.now(timezone.utc) - timedelta(hours=9)
    backend = _Backend(JobStatus(phase=JobPhase.QUEUED, queued_at=late, waiting_since=late), SUCCEEDED)

    assert await _follow(backend, []) == SUCCEEDED

    assert backend.cancelled == []


async def test_nothing_is_left_running_when_the_wait_is_given_up():
    backend = _Backend(RUNNING)
    before = asyncio.all_tasks()
    wait = asyncio.ensure_future(_follow(backend, []))
    await asyncio.sleep(0.01)

    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)

    assert asyncio.all_tasks() == before


async def test_a_job_of_others_is_followed_to_the_phase_that_is_wanted_and_goes_on():
    backend = _Backend(CHANGED.model_copy(update={"phase": JobPhase.STARTING}), RUNNING)

    assert await _follow(backend, [], reader=None, only_until={JobPhase.RUNNING}) == RUNNING


async def test_a_job_of_others_that_does_not_start_is_not_ended():
    stuck = RUNNING.model_copy(update={"phase": JobPhase.STARTING, "waiting_since": NOW})
    backend = _Backend(stuck)

    # One of ours would be ended by then.
    with pytest.raises(JobTimeout):
        await _follow(
            backend,
            [],
            datetime.now(timezone.utc) + timedelta(seconds=0.3),
            startup_timeout=0.01,
            only_until={JobPhase.SUCCEEDED},
        )

    assert backend.cancelled == []


async def test_a_job_in_a_queue_has_no_reader_of_its_lines_yet():
    queued = RUNNING.model_copy(update={"phase": JobPhase.QUEUED})
    backend, lines = _Backend(queued), []
    wait = asyncio.ensure_future(_follow(backend, lines))
    await asyncio.sleep(0.1)

    assert lines == ["Training job j: queued."]
    wait.cancel()
    await asyncio.gather(wait, return_exceptions=True)


@pytest.mark.parametrize("error", [None, JobLost("gone")])
async def test_who_reads_lines_only_is_notified_of_the_end(error):
    backend = _Backend(RUNNING, error=error) if error else _Backend(RUNNING, SUCCEEDED)

    async with end_of(backend, HANDLE) as ended:
        await with_timeout(ended.wait(), 60)


async def test_who_reads_lines_only_learns_that_the_job_can_be_watched_no_longer():
    async def read():
        async with end_of(_Backend(RUNNING, error=ApiError("forbidden", status=403)), HANDLE) as ended:
            await with_timeout(ended.wait(), 60)

    with pytest.raises(ApiError, match="forbidden"):
        await read()


async def test_who_reads_lines_no_longer_watches_no_longer():
    before = asyncio.all_tasks()

    async with end_of(_Backend(RUNNING), HANDLE) as ended:
        await asyncio.sleep(0.01)
        assert not ended.is_set()

    assert asyncio.all_tasks() == before


class _Reporting(_Backend):
    """Its leader reports a step a line; some lines are not for the log, and the backend has notes of its own."""

    def __init__(self, *statuses, steps):
        super().__init__(*statuses)
        self.steps, self.tracked = steps, []

    async def logs(self, handle, reader, ended, tracked=None):
        self.tracked.append(tracked)
        for step in self.steps:
            line = f'{{"trainer_progress": {{"step": {step}}}}}'
            yield LogLine("worker-0", line, (step, 1), 1000.0 + step, is_hidden=step < 5)
        yield LogLine("worker-0", '... {"trainer_progress": {"step": 1}}')
        yield LogLine("worker-1", '{"trainer_progress": {"step": 2}}', (100, 1))
        yield LogLine("worker-0", '{"trainer_progress": 7}', (101, 1))
        await ended.wait()


class _Sink:
    def __init__(self, **earlier):
        self.earlier, self.written = earlier, {}

    async def load(self, is_last):
        # Lines wait for it, and statuses do not.
        await asyncio.sleep(0.02)
        return self.earlier

    async def __call__(self, read, is_last):
        self.written.update(read())


async def test_progress_is_reported_from_the_leaders_lines_and_the_statuses():
    ended = SUCCEEDED.model_copy(update={"replicas": (REPLICA,)})
    backend, sink, lines = _Reporting(RUNNING, ended, steps=range(3, 8)), _Sink(), []
    reporter = Reporter(HANDLE, {}, sink, sink.load)

    await _follow(backend, lines, leader_only=True, reporter=reporter)

    assert (sink.written["progress"]["step"], sink.written["progress"]["attempt"]) == (7, 0)
    assert sink.written["status"]["phase"] == "succeeded"
    assert backend.tracked == [Tracked((0, 0))]
    # Those below 5 are in the log already.
    assert [line for line in lines if "step" in line] == [
        *(f'[worker-0] {{"trainer_progress": {{"step": {step}}}}}' for step in (5, 6, 7)),
        '[worker-0] ... {"trainer_progress": {"step": 1}}',
    ]
    assert sum("a report of progress was ignored" in line for line in lines) == 1


async def test_another_waiter_goes_on_behind_the_last_snapshot():
    first = Tracker("u", "worker-0", {})
    for step in range(1, 6):
        first.observe(f'{{"trainer_progress": {{"step": {step}, "metrics": {{"loss": {step}}}}}}}', 1000.0, (step, 1))
    ended = SUCCEEDED.model_copy(update={"replicas": (REPLICA,)})
    backend, sink = _Reporting(ended, steps=range(3, 8)), _Sink(progress=first.snapshot())
    reporter = Reporter(HANDLE, {}, sink, sink.load)

    await _follow(backend, [], reporter=reporter)

    assert backend.tracked == [Tracked((5, 1))]
    assert (sink.written["progress"]["step"], sink.written["progress"]["attempt"]) == (7, 0)


async def test_lines_that_come_again_after_a_failed_read_count_once(monkeypatch):
    monkeypatch.setattr(module, "_READ_AGAIN", 0.01)

    class Failing(_Reporting):
        async def logs(self, handle, reader, ended, tracked=None):
            async for line in super().logs(handle, reader, asyncio.Event(), tracked):
                yield line
                if len(self.tracked) == 1 and line.position == (7, 1):
                    raise OSError("no answer")
                if line.position == (101, 1):
                    return

    ended = SUCCEEDED.model_copy(update={"replicas": (REPLICA,)})
    backend, sink = Failing(RUNNING, ended, steps=range(3, 9)), _Sink()
    reporter = Reporter(HANDLE, {}, sink, sink.load)

    await _follow(backend, [], reporter=reporter)

    assert backend.tracked == [Tracked((0, 0)), Tracked((7, 1))]
    assert (sink.written["progress"]["step"], sink.written["progress"]["attempt"]) == (8, 0)


async def test_lines_that_are_not_read_are_no_reason_not_to_report():
    sink = _Sink()
    reporter = Reporter(HANDLE, {}, sink, sink.load)

    await _follow(_Backend(RUNNING, SUCCEEDED), [], reader=None, reporter=reporter)

    assert set(sink.written) == {"status"}


@pytest.mark.parametrize(("error", "seconds"), [(JobLost("gone"), 30), (None, 2)], ids=["gone", "late"])
async def test_the_last_state_is_reported_also_where_the_wait_ends_without_the_job(error, seconds):
    # The second status comes within the pause after the first write.
    class Late(_Backend):
        async def watch(self, handle):
            yield RUNNING
            await asyncio.sleep(0.01)
            yield CHANGED
            if error:
                raise error
            await asyncio.Event().wait()

    sink, deadline = _Sink(), datetime.now(timezone.utc) + timedelta(seconds=seconds)
    reporter = Reporter(HANDLE, {}, sink, sink.load)

    with pytest.raises((JobLost, JobTimeout)):
        await _follow(Late(RUNNING), [], deadline=deadline, reader=None, reporter=reporter)

    assert len(sink.written["status"]["replicas"]) == 1


async def test_a_job_whose_watch_is_behind_is_not_judged_by_it():
    late = datetime.now(timezone.utc) - timedelta(seconds=60)
    waits = JobStatus(phase=JobPhase.STARTING, queued_at=late, waiting_since=late)

    class Behind(_Backend):
        async def status(self, handle):
            self.asked.set()
            return SUCCEEDED

        async def watch(self, handle):
            yield waits
            await self.asked.wait()
            yield SUCCEEDED

    backend = Behind(waits)
    backend.asked = asyncio.Event()

    assert await with_timeout(_follow(backend, [], startup_timeout=0.05), 60) == SUCCEEDED
    assert backend.cancelled == []


_BEHIND = JobStatus(phase=JobPhase.STARTING, queued_at=NOW, waiting_since=NOW)
_REFUSED_ONCE = _BEHIND.model_copy(
    update={
        "reason": "FailedCreate",
        "message": 'pods "j-1" is forbidden: no',
        "refused_at": NOW,
        "still_missing": True,
    }
)
_NO_IMAGE = _BEHIND.model_copy(
    update={"replicas": (ReplicaStatus(group="worker", index=0, reason="ImagePullBackOff"),)},
)
_LOST = JobStatus(
    phase=JobPhase.RUNNING,
    queued_at=NOW,
    lost="worker-0",
    replicas=(ReplicaStatus(group="worker", index=0, reason="Deleted", exit_code=0),),
)
_PULLS = _BEHIND.model_copy(
    update={"replicas": (ReplicaStatus(group="worker", index=0, reason="ContainerCreating"),)},
)


@pytest.mark.parametrize("seen", [_REFUSED_ONCE, _NO_IMAGE, _LOST], ids=["refused", "image", "lost"])
@pytest.mark.parametrize(("now", "is_ended"), [(_PULLS, False), (None, True)], ids=["passed", "stands"])
async def test_what_a_watch_that_is_behind_says_last_ends_no_job(monkeypatch, seen, now, is_ended):
    backend = _Stuck(seen, SUCCEEDED)

    async def status(handle):
        if now:
            backend.ending.set()
        return now or seen

    backend.status = status
    seconds = iter(range(0, 100_000, 70))
    monkeypatch.setattr(module, "_now", lambda: NOW + timedelta(seconds=next(seconds)))

    assert await with_timeout(_follow(backend, [], reader=None), 60) == SUCCEEDED
    assert len(backend.cancelled) == is_ended


@pytest.mark.parametrize(
    ("reason", "fresh", "is_ended"),
    [("Init:Error", 600, True), ("Init:Error", None, False), (None, 600, False)],
    ids=["a later pod", "held in a queue", "a pod that took the place of another"],
)
async def test_only_the_watch_knows_since_when_pods_have_failed(reason, fresh, is_ended):
    now = datetime.now(timezone.utc)
    since = None if fresh is None else now + timedelta(seconds=fresh)
    backend = _Stuck(_BEHIND.model_copy(update={"reason": reason}), SUCCEEDED)

    async def status(handle):
        backend.ending.set()
        return _BEHIND.model_copy(update={"waiting_since": since})

    backend.status = status

    await with_timeout(_follow(backend, [], reader=None, startup_timeout=0.05), 60)

    assert len(backend.cancelled) == is_ended


async def test_the_verdict_names_what_the_watch_has_seen():
    failed = ReplicaStatus(group="worker", index=0, reason="Init:Error", message="init container prepare exited with 2")
    seen = _BEHIND.model_copy(update={"reason": "Init:Error", "message": failed.message, "replicas": (failed,)})
    backend = _Stuck(seen, FAILED)

    async def status(handle):
        # Its next pod is new.
        return _PULLS

    backend.status = status

    found = await with_timeout(_follow(backend, [], reader=None, startup_timeout=0.05), 60)

    assert (found.phase, found.reason) == (JobPhase.FAILED, "Init:Error")
    assert found.message.endswith(failed.message)


async def test_the_verdict_does_not_name_what_is_cured():
    no_image = ReplicaStatus(group="worker", index=0, reason="ErrImagePull", message="not found")
    no_room = no_image.model_copy(update={"reason": "Unschedulable", "message": "0/1 nodes"})
    backend = _Stuck(_BEHIND.model_copy(update={"replicas": (no_image,)}), FAILED)

    async def status(handle):
        return _BEHIND.model_copy(update={"replicas": (no_room,)})

    backend.status = status

    found = await with_timeout(_follow(backend, [], reader=None, startup_timeout=0.05), 60)

    assert (found.phase, found.reason, found.replicas[0].reason) == (JobPhase.FAILED, "Unschedulable", "Unschedulable")


async def test_a_job_that_succeeds_while_it_is_ended_has_succeeded():
    late = datetime.now(timezone.utc) - timedelta(seconds=60)
    backend = _Stuck(JobStatus(phase=JobPhase.STARTING, queued_at=late, waiting_since=late), SUCCEEDED)

    assert await with_timeout(_follow(backend, [], startup_timeout=0.05), 60) == SUCCEEDED
