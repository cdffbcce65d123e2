"""Reading logs that are still being written."""

from __future__ import annotations

import asyncio
import logging
import time
import tracemalloc

import pytest

from airflow_trainer_provider.job.backend import LogSelection
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.local import logs
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.logs import LogReader, last_lines
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.text.printable import LONGEST_LINE, LONGEST_LINE_BYTES, plain


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "job")
    identity = Identity(dag_id="d", run_id="r", task_id="t")
    folder.create(JobRecord(uid="u", identity=identity, digest="d", spec=parse_spec({"framework": "jax"})))
    folder.attempt(0).create()
    return folder


def _write(folder, content, attempt=0, replica="worker-0"):
    folder.attempt(attempt).create()
    with (folder.attempt(attempt).logs / f"{replica}.log").open("ab") as file:
        file.write(content)


def _lines(reader, *, ended=False):
    for part in reader.slices(ended=ended):
        yield from reader.emitting(part)


def _read(reader, *, ended=False):
    lines = [str(line) for line in _lines(reader, ended=ended)]
    reader.save()
    return lines


def test_the_cursor_that_is_kept_under_way_is_that_of_a_moment_ago(folder, monkeypatch):
    monkeypatch.setattr(logs, "_TRAIL_SECONDS", 0)
    reader = LogReader(folder, "a")
    for content in (b"one\n", b"two\n"):
        _write(folder, content)
        list(_lines(reader))
        reader.save_trailing()

    assert _read(LogReader(folder, "a")) == ["[worker-0] two"]


@pytest.fixture
def full_disk(folder):
    """Function (reader) -> there is no room for the reader's cursor; gives the function that makes room."""

    def fill(reader):
        draft = LogReader(folder, reader)._file.with_suffix(".draft")
        draft.symlink_to("/dev/full")
        return draft.unlink

    return fill


def test_a_cursor_that_there_is_no_room_for_is_warned_about_once_and_kept_later(folder, full_disk, caplog):
    make_room, reader = full_disk("a"), LogReader(folder, "a")
    for content in (b"one\n", b"two\n"):
        _write(folder, content)
        _read(reader)

    (warning,) = [record.getMessage() for record in caplog.records]
    assert "another process may repeat log lines: [Errno 28] No space left on device" in warning
    assert _read(LogReader(folder, "a")) == ["[worker-0] one", "[worker-0] two"]
    make_room()
    reader.save()
    assert _read(LogReader(folder, "a")) == []


class _FullLog(logging.Handler):
    """A log on a full disk."""

    def __init__(self):
        super().__init__()
        self.tried = 0

    def emit(self, record):
        self.tried += 1
        raise OSError(28, "No space left on device")


async def test_each_line_comes_once_where_there_is_room_for_neither_the_cursor_nor_a_warning(
    folder, full_disk, monkeypatch
):
    full_disk("a")
    full_log = _FullLog()
    monkeypatch.setattr(logs, "_TRAIL_SECONDS", 0)
    monkeypatch.setattr(logs.log, "handlers", [full_log])
    backend, ended, texts = LocalBackend(folder.path.parent, 0.01, None), asyncio.Event(), []
    handle = JobHandle(
        name="job", uid="u", backend="local", framework="jax", leader="w", owner=1, location=str(folder.path.parent)
    )
    _write(folder, b"one\n")
    async for line in backend.logs(handle, "a", ended):
        texts.append(line.text)
        if len(texts) < 4:
            _write(folder, b"more\n")
        else:
            ended.set()

    assert texts == ["one", "more", "more", "more"]
    assert full_log.tried == 1


def test_each_line_once_per_reader_over_its_instances(folder):
    _write(folder, b"one\ntwo\nthr")
    reader = LogReader(folder, "a")

    assert _read(reader) == ["[worker-0] one", "[worker-0] two"]
    assert _read(reader) == []
    _write(folder, b"ee\nfour")
    assert _read(LogReader(folder, "a")) == ["[worker-0] three"]
    assert _read(LogReader(folder, "a"), ended=True) == ["[worker-0] four"]
    assert _read(LogReader(folder, "a"), ended=True) == []


@pytest.mark.parametrize("other", ["b", "a/b", "a_b", "x" * 600])
def test_readers_do_not_disturb_each_other(folder, other):
    _write(folder, b"one\n")
    mine = "a-b" if other != "x" * 600 else "x" * 601

    assert _read(LogReader(folder, mine)) == ["[worker-0] one"]
    assert _read(LogReader(folder, other)) == ["[worker-0] one"]


def test_a_reader_that_stops_between_lines_goes_on_with_the_next(folder):
    _write(folder, b"one\ntwo\nthree\n")
    reader = LogReader(folder, "a")
    lines = _lines(reader)
    assert next(lines).text == "one"
    lines.close()
    reader.save()

    assert _read(LogReader(folder, "a")) == ["[worker-0] two", "[worker-0] three"]


def test_attempts_in_their_order(folder):
    for attempt in (0, 2, 10):
        _write(folder, b"%d\n" % attempt, attempt)

    assert _read(LogReader(folder, "a")) == ["[worker-0] 0", "[worker-0] 2", "[worker-0] 10"]


def test_a_log_larger_than_one_gulp(folder):
    lines = [b"%06d %s\n" % (number, b"x" * 90) for number in range(50_000)]
    _write(folder, b"".join(lines))

    texts = [line.text for line in _lines(LogReader(folder, "a"))]

    assert texts == [line.decode().rstrip() for line in lines]


CUT = "[the rest of this line was cut]"


@pytest.mark.parametrize(
    ("content", "running", "at_the_end"),
    [
        # A progress bar that writes no line end.
        (b"\rstep 1" * 500_000, [], ["step 1"]),
        (b"step 1\r" * 500_000, [], ["step 1"]),
        (b"one\n" + b"\rstep 1" * 500_000 + b"\nlast\n", ["one", "step 1", "last"], []),
        # A line that is too long is there before its end, and once.
        (b"x" * 3_000_000, [f"{'x' * LONGEST_LINE} {CUT}"], []),
        (b"x" * 3_000_000 + b"\nlast\n", [f"{'x' * LONGEST_LINE} {CUT}", "last"], []),
        (b"x" * 3_000_000 + b"\r\nlast\n", [f"{'x' * LONGEST_LINE} {CUT}", "last"], []),
        (b"x" * 3_000_000 + b"\r100%\nlast", [f"{'x' * LONGEST_LINE} {CUT}", "100%"], ["last"]),
        (b"x" * 3_000_000 + b"\r", [f"{'x' * LONGEST_LINE} {CUT}"], []),
        # One that is only somewhat too long waits for its end.
        (b"x" * 40_000, [], [f"{'x' * LONGEST_LINE} {CUT}"]),
        ("é".encode() * LONGEST_LINE + b"\n", ["é" * LONGEST_LINE], []),
    ],
)
def test_a_line_without_an_end_is_bounded(folder, content, running, at_the_end):
    _write(folder, content)
    reader = LogReader(folder, "a")

    tracemalloc.start()
    texts = [line.text for line in _lines(reader)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert texts == running
    assert [line.text for line in _lines(reader)] == []
    assert [line.text for line in _lines(reader, ended=True)] == at_the_end
    assert [line.text for line in _lines(reader, ended=True)] == []
    assert peak < 2 * 2**20


def test_a_line_that_grows_is_read_from_where_it_was_overwritten(folder):
    """Another process that goes on does not read all of it again."""
    _write(folder, b"\rstep 1" * 500_000)
    assert _read(LogReader(folder, "a")) == []
    _write(folder, b"\rstep 2")

    later = LogReader(folder, "a")
    begin = next(iter(later._offsets.values()))
    assert begin > 3_000_000
    assert _read(later, ended=True) == ["[worker-0] step 2"]


def test_a_line_that_grows_beyond_the_bound_is_cut_once(folder):
    reader = LogReader(folder, "a")
    texts = []
    for _ in range(40):
        _write(folder, b"x" * 10_000)
        texts += [line.text for line in _lines(reader)]
    _write(folder, b"\nnext\n")

    assert [*texts, *(line.text for line in _lines(reader))] == [f"{'x' * LONGEST_LINE} {CUT}", "next"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"plain\n", "plain"),
        (b"dos\r\n", "dos"),
        (b"\x1b[31mred\x1b[0m \x1b[1;4mbold\x1b[m\n", "red bold"),
        (b"\x1b]0;title\x07text\n", "text"),
        (b"10%\r50%\r100%\n", "100%"),
        (b"10%\r\n", "10%"),
        (b"\xff ok \xc3\xa9\n", "\N{REPLACEMENT CHARACTER} ok é"),
        (b"  indented\n", "  indented"),
        (b"\n", ""),
    ],
)
def test_a_line_is_what_a_terminal_shows_in_the_end(line, text):
    assert plain(line) == text


def test_the_tail_of_a_log_is_its_last_lines_with_long_ones_cut(tmp_path):
    file = tmp_path / "log"

    def tail(content, lines=3):
        file.write_bytes(content)
        return list(last_lines(file, lines))

    assert list(last_lines(file, 3)) == []
    assert tail(b"") == []
    assert tail(b"1\n2\n10%\r20%\nlast") == ["2", "20%", "last"]
    assert tail(b"1\n2\n\n") == ["1", "2", ""]
    assert tail(b"1\n2\n", 1) == ["2"]
    assert tail(b"1\n2\n", 0) == []
    assert tail(b"1\n" + b"x" * 100_000) == ["1", f"{'x' * LONGEST_LINE} {CUT}"]


_LONG = b"x" * 3_000_000


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        # A message that is longer than all that is read at once does not push out what comes before it.
        (b"0\nTraceback:\nNo: " + _LONG + b"\n", ["Traceback:", f"No: {'x' * (LONGEST_LINE - 4)} {CUT}"]),
        (_LONG + b"\n" + _LONG + b"\nend", [f"{'x' * LONGEST_LINE} {CUT}", "end"]),
        # A bar of progress, and carriage returns where a line is read in parts.
        (b"0\n1\n" + b"\r50%" * 1_000_000 + b"\rdone\r\n", ["1", "done"]),
        (_LONG + b"\r" + b"\n1", [f"{'x' * LONGEST_LINE} {CUT}", "1"]),
        (b"x" * (LONGEST_LINE_BYTES - 1) + b"\r\n1", [f"{'x' * LONGEST_LINE} {CUT}", "1"]),
        (b"x" * (LONGEST_LINE_BYTES - 1) + b"\r\r2\n\n", ["2", ""]),
        (_LONG + b"\r2\n1\n", ["2", "1"]),
        (b"x" * (3 * LONGEST_LINE_BYTES - 1) + b"\r2\n1\n", ["2", "1"]),
    ],
    ids=[
        "a long message",
        "two",
        "progress",
        "a return at the end",
        "apart",
        "overwritten",
        "overwritten later",
        "overwritten apart",
    ],
)
def test_the_tail_of_a_log_holds_lines_of_any_length(tmp_path, content, lines):
    file = tmp_path / "log"
    file.write_bytes(content)

    assert list(last_lines(file, 2)) == lines
    assert list(last_lines(file))[-2:] == lines


def test_the_tail_of_a_log_needs_no_more_memory_than_its_lines(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"0\n" + b"y" * 64_000_000 + b"\n1\n")
    tracemalloc.start()
    try:
        assert list(last_lines(file, 3))[0::2] == ["0", "1"]
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_folder_is_made_once_and_whole(folder, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    folder.hand_to(2)

    with pytest.raises(FileExistsError):
        folder.create(folder.record())

    assert sorted(tmp_path.rglob("*")) == before
    assert folder.owner == 2


@pytest.mark.parametrize("content", [b"\rstep 1" * 4_000_000, b"one line\n" * 300_000])
async def test_the_event_loop_has_time_for_others_while_a_long_log_is_read(folder, content):
    _write(folder, content)
    backend, ended = LocalBackend(folder.path.parent, 0.05, None), asyncio.Event()
    handle = JobHandle(
        name="job", uid="u", backend="local", framework="jax", leader="w", owner=1, location=str(folder.path.parent)
    )
    rounds = []

    async def probe():
        while True:
            # Not the time that other processes and threads take from this one.
            before = time.thread_time()
            await asyncio.sleep(0)
            rounds.append(time.thread_time() - before)

    probing = asyncio.create_task(probe())
    ended.set()
    last = [line.text async for line in backend.logs(handle, "a", ended)][-1]
    probing.cancel()

    assert last in ("step 1", "one line")
    # Garbage may be collected in any round.
    assert sorted(rounds)[-3] < 0.02


def test_lines_behind_a_position_are_given_again(folder):
    _write(folder, b"0\n1\n2\n", attempt=0)
    _write(folder, b"3\n4\n", attempt=1)
    _write(folder, b"other\n", attempt=1, replica="worker-1")
    reader = LogReader(folder, "a")
    positions = {line.text: line.position for line in _lines(reader)}
    reader.save()
    _write(folder, b"5\n", attempt=1)

    def again(since):
        parts = LogReader(folder, "a").emitted("worker-0", since)
        return [(text, (part.attempt, end)) for part in parts for text, end in part.lines]

    assert again((0, 0)) == [(text, positions[text]) for text in "01234"]
    assert again(positions["1"]) == [(text, positions[text]) for text in "234"]
    assert again(positions["3"]) == [("4", positions["4"])]
    assert again(positions["4"]) == []
    assert again((7, 7)) == []


@pytest.fixture
def shown(folder):
    """Function (selection) -> the lines of a job that has ended, as a person sees them."""
    replicas = tuple(ReplicaStatus(group="worker", index=index) for index in range(2))
    at, root = "2026-01-01T00:00:00Z", str(folder.path.parent)
    folder.write_status(JobStatus(phase=JobPhase.SUCCEEDED, queued_at=at, finished_at=at, replicas=replicas))
    backend = LocalBackend(folder.path.parent, 0.05, None)
    handle = JobHandle(name="job", uid="u", backend="local", framework="jax", leader="w", owner=1, location=root)

    async def shown(**selection):
        blocks = backend.show_logs(handle, LogSelection(**selection))
        return [str(line) async for block in blocks for line in block.lines()]

    return shown


# In debug mode the test itself keeps the loop: it makes and compares 300,000 lines.
@pytest.mark.loop_errors
async def test_all_lines_are_shown_without_a_number_of_last_ones(folder, shown):
    _write(folder, b"".join(b"%d\n" % number for number in range(300_000)))

    assert await shown() == [f"[worker-0] {number}" for number in range(300_000)]
    assert await shown(tail=2) == ["[worker-0] 299998", "[worker-0] 299999"]


async def test_one_replica_is_followed_alone(folder, shown):
    _write(folder, b"one\n")
    _write(folder, b"two\n", replica="worker-1")

    assert sorted(await shown(follow=True)) == ["[worker-0] one", "[worker-1] two"]
    assert await shown(follow=True, replica="worker-1") == ["[worker-1] two"]
