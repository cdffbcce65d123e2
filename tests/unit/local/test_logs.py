"""Reading logs that are still being written."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.log_text import plain
from airflow_trainer_provider.local.logs import LogReader, tail
from airflow_trainer_provider.local.run_folder import JobRecord, RunFolder
from airflow_trainer_provider.spec import parse_spec


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


def _read(reader, *, ended=False):
    lines = [str(line) for line in reader.read(ended=ended)]
    reader.save()
    return lines


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
    lines = reader.read(ended=False)
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

    texts = [line.text for line in LogReader(folder, "a").read(ended=False)]

    assert texts == [line.decode().rstrip() for line in lines]


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


def test_tail(tmp_path):
    file = tmp_path / "log"
    assert tail(file, 3) == []
    file.write_bytes(b"")
    assert tail(file, 3) == []
    file.write_bytes(b"1\n2\n10%\r20%\nlast")
    assert tail(file, 3) == ["2", "20%", "last"]


def test_a_folder_is_made_once_and_whole(folder, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    folder.hand_to(2)

    with pytest.raises(FileExistsError):
        folder.create(folder.record())

    assert sorted(tmp_path.rglob("*")) == before
    assert folder.owner == 2
