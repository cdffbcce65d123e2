"""Reports are handed on now and then, only where something has changed, and never delay the wait."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timezone
from itertools import pairwise

import pytest

from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.progress import reporter as module
from airflow_trainer_provider.job.progress.reporter import Reporter
from airflow_trainer_provider.job.progress.tracker import Tracker
from airflow_trainer_provider.job.status import JobPhase, JobStatus
from airflow_trainer_provider.timeouts import with_timeout

HANDLE = JobHandle(name="j", uid="u", backend="b", framework="f", leader="worker-0", owner=1, location="/l")
RUNNING = JobStatus(phase=JobPhase.RUNNING, queued_at=datetime(2026, 1, 1, tzinfo=timezone.utc))


class Sink:
    def __init__(self):
        self.written, self.error, self.hangs = [], None, False
        self.wrote = asyncio.Event()

    async def __call__(self, read, is_last):
        values = read()
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        self.written.append((time.monotonic(), dict(values), is_last))
        self.wrote.set()

    @property
    def steps(self):
        return [values["progress"]["step"] for _, values, _ in self.written if "progress" in values]


#: Before a test replaces them.
SECONDS = {"pace": module.PACE, "read": module.READ_SECONDS, "last": module.LAST_SECONDS}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "PACE", 0.1)
    monkeypatch.setattr(module, "PAUSES", (0.05,) * 100)
    # Enough for a busy machine.
    monkeypatch.setattr(module, "LAST_SECONDS", 4)


@pytest.fixture
def hasty(monkeypatch):
    """At the end, what hangs is given up at once."""
    monkeypatch.setattr(module, "LAST_SECONDS", 0.1)


async def load(is_last):
    return {}


async def make():
    sink = Sink()
    reporter = Reporter(HANDLE, {}, sink, load)
    await reporter.ready()
    return sink, reporter


def step(reporter, number):
    return reporter.line(f'{{"trainer_progress": {{"step": {number}}}}}', None, (number, 1))


async def test_the_newest_state_is_written_at_its_pace_and_at_the_end():
    sink, reporter = await make()
    for number in range(1, 28):
        step(reporter, number)
        await asyncio.sleep(0.01)
    step(reporter, 30)
    await reporter.finish()

    assert sink.steps[0] == 1
    assert sink.steps[-1] == 30
    times = [at for at, _, is_last in sink.written if not is_last]
    # On a busy machine the lines take longer, and more is written meanwhile.
    assert 2 <= len(times) < 27
    assert all(after - before >= 0.09 for before, after in pairwise(times))


async def test_nothing_is_written_where_nothing_has_changed():
    sink, reporter = await make()
    reporter.status(RUNNING)
    await asyncio.sleep(0.02)
    for _ in range(3):
        reporter.status(RUNNING)
        reporter.line("hello", None, (1, 1))
    await asyncio.sleep(0.25)
    await reporter.finish()

    assert [set(values) for _, values, _ in sink.written] == [{"status"}]


async def test_a_sink_that_fails_is_tried_again_and_named_once(caplog):
    sink, reporter = await make()
    sink.error = OSError("no Airflow")
    step(reporter, 1)
    await asyncio.sleep(0.25)
    sink.error = None
    await asyncio.sleep(0.15)
    await reporter.finish()

    assert sink.steps == [1]
    assert [record.message for record in caplog.records] == [
        "The progress of training job j could not be written: no Airflow"
    ]


@pytest.mark.usefixtures("hasty")
async def test_a_sink_that_hangs_does_not_delay_the_end(caplog):
    sink, reporter = await make()
    sink.hangs = True
    step(reporter, 1)
    await asyncio.sleep(0.02)
    await with_timeout(reporter.finish(), 60)

    assert caplog.messages == ["The progress of training job j could not be written: TimeoutError"]


async def test_a_write_that_waits_for_its_turn_is_not_given_up(caplog, monkeypatch):
    loop, turn, asked = asyncio.get_running_loop(), asyncio.Event(), []

    async def report(read, is_last):
        asked.append(is_last)
        await turn.wait()
        read()

    reporter = Reporter(HANDLE, {}, report, load)
    await reporter.ready()
    step(reporter, 1)
    await asyncio.sleep(0.02)
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 3600)
    await asyncio.sleep(0.02)
    turn.set()
    await asyncio.sleep(0.02)
    await reporter.finish()

    assert asked == [False]
    assert caplog.records == []


async def test_a_write_that_was_interrupted_by_the_end_is_repeated():
    sink, reporter = await make()
    sink.hangs = True
    step(reporter, 1)
    await asyncio.sleep(0.02)
    sink.hangs = False
    await reporter.finish()

    assert [(values["progress"]["step"], is_last) for _, values, is_last in sink.written] == [(1, True)]


async def test_a_line_says_once_why_a_report_is_ignored():
    _, reporter = await make()

    note = reporter.line('{"trainer_progress": 1}', None, (1, 1))
    assert note == (
        "... a report of progress was ignored, and others like it may be: trainer_progress is no JSON object"
    )
    assert reporter.line('{"trainer_progress": 1}', None, (1, 2)) is None
    await reporter.close()


async def test_a_line_says_once_what_a_restart_without_a_checkpoint_has_cost():
    _, reporter = await make()
    begin = time.time()
    reporter.status(RUNNING)
    notes = []

    def say(at, step):
        line = f'{{"trainer_progress": {{"step": {step}}}}}'
        notes.append(reporter.line(line, begin + at, (int(at) + 10_000, 1)))

    say(-900, 0)
    say(0, 90)
    reporter.status(RUNNING.model_copy(update={"restarts": 1}))
    for at, step in ((60, 0), (120, 6), (180, 12)):
        say(at, step)
    await reporter.close()

    assert notes == [
        None,
        None,
        "... a restart has lost 90 steps, about 15 minutes of work, and no checkpoint is known: "
        "docs/how-to/checkpoints.md says how to save them, and to begin at the last one",
        None,
        None,
    ]


async def test_statuses_do_not_wait_for_what_was_reported_before():
    sink, known = Sink(), asyncio.Event()

    async def slow(is_last):
        await known.wait()
        return {}

    reporter = Reporter(HANDLE, {}, sink, slow)
    reporter.status(RUNNING)
    reporter.status(RUNNING.model_copy(update={"restarts": 1}))
    await asyncio.sleep(0.02)
    assert sink.written == []
    known.set()
    await reporter.ready()
    await reporter.finish()

    assert sink.written[-1][1]["status"]["restarts"] == 1


async def test_a_wait_that_ends_early_stops_loading():
    async def never(is_last):
        await asyncio.Event().wait()

    reporter = Reporter(HANDLE, {}, Sink(), never)
    reporter.status(RUNNING)
    await with_timeout(reporter.close(), 60)


class Earlier:
    """What an earlier process has reported: five steps, and a restart. It can be read only at last."""

    def __init__(self, failures=10**9, error=True):
        tracker = Tracker("u", "worker-0", {})
        for number, (reported, loss) in enumerate([(7, 9.0), (3, 5.0), (4, 4.0), (5, 3.0), (6, 2.0)], 1):
            text = f'{{"trainer_progress": {{"step": {reported}, "metrics": {{"loss": {loss}}}}}}}'
            tracker.observe(text, 1000.0 + number, (number, 1))
        self.values = {"progress": tracker.snapshot(), "status": {"phase": "running", "replicas": []}}
        self.failures, self.error, self.reads = failures, error, []

    async def __call__(self, is_last):
        self.reads.append(is_last)
        if len(self.reads) <= self.failures:
            if self.error:
                raise OSError("no Airflow")
            await asyncio.Event().wait()
        return self.values


async def test_nothing_is_written_over_what_could_not_be_read_yet(caplog, monkeypatch):
    monkeypatch.setattr(module, "READ_SECONDS", 0.05)
    sink, earlier = Sink(), Earlier(failures=6)
    reporter = Reporter(HANDLE, {}, sink, earlier)
    reporter.status(RUNNING)
    await reporter.begin_lines()
    # The lines go on, and the last ones of the time before come again.
    assert reporter.since is None
    step(reporter, 5)
    step(reporter, 6)
    step(reporter, 8)
    await asyncio.sleep(0.1)
    assert sink.written == []
    assert reporter.since == (8, 1)

    await with_timeout(sink.wrote.wait(), 60)
    await reporter.finish()
    progress = sink.written[-1][1]["progress"]

    assert (progress["step"], progress["attempt"], len(progress["restarts"])) == (8, 1, 1)
    assert [entry["step"] for entry in progress["history"]["loss"]] == [[7], [3, 4, 5, 6]]
    assert any(values.get("status", {}).get("phase") == "running" for _, values, _ in sink.written)
    assert caplog.messages == ["What was reported of training job j before cannot be read yet: no Airflow"]


@pytest.mark.parametrize(("failures", "attempt"), [(2, 1), (10**9, 0)], ids=["at last", "never"])
async def test_at_the_end_it_is_read_once_more_before_the_last_write(failures, attempt, monkeypatch):
    monkeypatch.setattr(module, "PAUSES", (60,))
    sink, earlier = Sink(), Earlier(failures)
    reporter = Reporter(HANDLE, {}, sink, earlier)
    reporter.status(RUNNING)
    step(reporter, 8)
    await asyncio.sleep(0.01)
    await reporter.finish()

    assert earlier.reads[:3] == [False, True, True]
    assert [(values["progress"]["step"], values["progress"]["attempt"]) for _, values, _ in sink.written] == [
        (8, attempt)
    ]


@pytest.mark.usefixtures("hasty")
async def test_a_read_that_hangs_delays_the_end_no_longer_than_a_write():
    sink, earlier = Sink(), Earlier(error=False)
    reporter = Reporter(HANDLE, {}, sink, earlier)
    reporter.status(RUNNING)
    await with_timeout(reporter.finish(), 60)

    # It may be a slow one.
    assert sink.written == []


async def test_what_is_kept_until_then_is_bounded(monkeypatch):
    reporter = Reporter(HANDLE, {}, Sink(), Earlier())
    for number in range(module._MOST_EARLY + 100):
        step(reporter, number)

    assert len(reporter._early) == module._MOST_EARLY
    await reporter.close()


async def test_what_cannot_be_taken_in_ends_no_wait(caplog, monkeypatch):
    async def fail(is_last):
        raise OSError("no Airflow")

    monkeypatch.setattr(module, "READ_SECONDS", 0.05)

    def odd(self, status, now):
        raise TypeError("odd")

    monkeypatch.setattr(Tracker, "observe_status", odd)
    sink = Sink()
    reporter = Reporter(HANDLE, {}, sink, fail)
    reporter.status(RUNNING)
    await reporter.ready()
    reporter.status(RUNNING.model_copy(update={"restarts": 1}))
    await reporter.finish()

    assert sink.written[-1][1]["status"]["restarts"] == 1
    assert "What was reported of training job j before cannot be read yet: no Airflow" in caplog.text
    assert "A status of training job j is not reported: odd" in caplog.text


@pytest.mark.parametrize(
    ("earlier", "since"), [({}, (0, 0)), ({"status": {}}, None), ({"status": {}, "progress": {"odd": 1}}, None)]
)
async def test_the_log_is_read_from_its_beginning_only_where_nothing_was_written(earlier, since):
    async def earlier_values(is_last):
        return earlier

    reporter = Reporter(HANDLE, {}, Sink(), earlier_values)
    await reporter.ready()
    assert reporter.since == since
    step(reporter, 7)

    assert reporter.since == (7, 1)
    await reporter.close()


def test_the_times_are_those_of_the_documentation():
    assert SECONDS == {"pace": 10, "read": 60, "last": 10}
