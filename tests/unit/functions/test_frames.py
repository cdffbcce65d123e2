"""A large value that is put together from a log, which has other lines as well, or not all of them."""

from __future__ import annotations

import binascii
import json

import pytest

from airflow_trainer_provider.functions import runner
from airflow_trainer_provider.functions.frames import MOST_FRAMES, Framed, Frames, is_frame
from airflow_trainer_provider.job.result import VALUE_LIMIT_BYTES


@pytest.fixture
def printed(tmp_path, monkeypatch, capfd):
    """Function (value) that gives what the runner writes of it: the termination message, and the lines."""

    def printed(value):
        monkeypatch.setenv("TRAINER_RESULT_PATH", str(tmp_path / "message"))
        assert runner._return({"function": "f", "limit": VALUE_LIMIT_BYTES}, value) == 0
        lines = [line for line in capfd.readouterr().out.splitlines() if line]
        return Framed.parse((tmp_path / "message").read_bytes()), lines

    return printed


def read(*texts):
    frames = Frames()
    frames.take(texts)
    return frames


def value_of(frames, framed):
    content = frames.value(framed)
    return None if content is None else json.loads(content)["value"]


def test_other_lines_and_prefixes_do_no_harm(printed):
    value = ["é\U0001f600\n\x00 trainer result", 1e300, {"": None}] * 1000
    framed, lines = printed(value)

    assert framed.count == len(lines) > 3
    assert all(map(is_frame, lines))
    assert value_of(read(*lines), framed) == value
    shown = ["loss 0.1", *(f"[rank0]:{line}\r" for line in lines), "trainer result is there", "[1,0]<stdout>:bye"]
    assert value_of(read(*shown), framed) == value
    assert value_of(read("".join(lines)), framed) == value
    assert [line for line in shown if not is_frame(line)] == [
        "loss 0.1",
        "trainer result is there",
        "[1,0]<stdout>:bye",
    ]


def test_the_last_run_of_a_container_counts_and_a_repetition_is_none(printed):
    first, lines = printed("a" * 9000)
    second, again = printed("b" * 9000)

    assert value_of(read(*lines[:2], *again, again[0]), second) == "b" * 9000
    assert value_of(read(*lines[:2], *again), first) is None
    assert read(*lines, *again[1:]).missing(second) == [1]
    assert value_of(read(*reversed(again)), second) == "b" * 9000


def test_what_several_have_read_is_put_together(printed):
    framed, lines = printed("a" * 20000)
    other = read(*printed("b" * 20000)[1])
    late, early = read(*lines[2:]), read(*lines[:4])

    late.fill(other)
    assert late.missing(framed) == [1, 2]
    late.fill(early)
    assert value_of(late, framed) == "a" * 20000
    nothing = Frames()
    nothing.fill(early)
    assert nothing.missing(framed) == list(range(5, framed.count + 1))


def _changed(line):
    """A whole line of another value, with the digest of this one."""
    *head, part, _ = line.split(" ")
    part = part.replace("MDAw", "MTEx")
    return " ".join([*head, part, f"{binascii.crc32(part.encode()):08x}"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [], "of its 7 lines 'trainer result DIGEST', 7 (1, 2, 3, 4, 5, ...) are not in the log"),
        (lambda lines: lines[:4] + lines[5:], "of its 7 lines 'trainer result DIGEST', 1 (5) are not in the log"),
        # Another rank's text is within a line, or breaks it.
        (lambda lines: [lines[0].replace("MDAw", "bye", 1), *lines[1:]], "'trainer result DIGEST', 1 (1) are not in"),
        (lambda lines: [lines[0][:500], lines[0][500:], *lines[1:]], "'trainer result DIGEST', 1 (1) are not in"),
        (lambda lines: [_changed(lines[0]), *lines[1:]], "has the SHA-256 digest SHA256, and what is in"),
    ],
)
def test_a_value_that_is_not_whole_is_an_error_that_names_what_is_missing(change, said, printed):
    framed, lines = printed("\0" * 3300)

    frames = read(*change(lines))

    assert frames.value(framed) is None
    problem = json.loads(frames.problem(framed, "the log of pod p"))
    assert problem["trainer_function"] == "f"
    assert said.replace("DIGEST", framed.sha256[:8]).replace("SHA256", framed.sha256) in problem["error"]
    assert "Write values of this size to storage, and return their address." in problem["error"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "trainer result",
        "the trainer result 12345678 1/2",
        "trainer result 1234567 1/2 QUJD",
        "trainer result x 1/2 Q",
        "trainer result 20261123 1/3 folds done",
    ],
)
def test_what_is_no_line_of_a_value(text):
    assert not is_frame(text)


@pytest.mark.parametrize("number", [0, MOST_FRAMES + 1])
def test_no_more_lines_are_kept_than_a_value_has(number):
    frames = read(f"trainer result 12345678 {number}/9 QUJD {binascii.crc32(b'QUJD'):08x}")

    assert frames.missing(Framed("f", "12345678", 3, 1)) == [1]
    assert frames._parts == {}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b"3",
        b"\xff",
        b'{"trainer_function":"f","value":1}',
        b'{"trainer_function":"f","sha256":"a","bytes":"1","frames":1}',
        b'{"trainer_function":"f","sha256":"a","bytes":1,"frames":true}',
        b'{"trainer_function":"f","sha256":"a","bytes":1,"frames":1000000000}',
        b"[" * 4000,
    ],
)
def test_what_does_not_announce_lines(message):
    assert Framed.parse(message) is None
