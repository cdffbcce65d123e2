"""How foreign text is reduced to printable text."""

from __future__ import annotations

import time

import pytest

from airflow_trainer_provider.text.printable import CUT, last_lines, plain, printable

#: Text, and what remains of it.
WRITTEN = [
    ("plain", "plain"),
    ("tab\there", "tab\there"),
    ("café 日本 ██ 😀", "café 日本 ██ 😀"),
    ("\x1b[31mred\x1b[0m and \x1b[1;38;5;9mbold\x1b[m", "red and bold"),
    ("\x9b31mred\x9b0m by one character", "red by one character"),
    ("\x1bcreset", "reset"),
    ("\x1b(0lqqk\x1b(B", "lqqk"),
    ("\x1b[2J\x1b[Hcleared", "cleared"),
    ("\x1b[?25lhidden cursor", "hidden cursor"),
    ("\x1b]0;title\x07x", "x"),
    ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x9d0;title\x9cx", "x"),
    ("\x1bP1;2q payload\x1b\\x", "x"),
    ("\x1b_payload\x1b\\\x1b^more\x1b\\x", "x"),
    ("\x1b]0;no end, so it is text", "0;no end, so it is text"),
    ("lone \x1b", "lone "),
    ("bell\x07 null\x00 delete\x7f", "bell null delete"),
    ("a\x0bb\x0cc\x85d\u2028e\u2029f", "a b c d e f"),
    ("evil \u202egpj.exe\u202c \u2066x\u2069 \u200fy", "evil gpj.exe x y"),
    ("zero\u200b width\u2060\ufeff soft\u00adhyphen", "zero width softhyphen"),
    ("no-break\u00a0and\u3000wide", "no-break and wide"),
    ("private \ue000 use", "private \ufffd use"),
]


@pytest.mark.parametrize(("written", "left"), WRITTEN)
def test_lines_and_messages_are_reduced_to_printable_text(written, left):
    assert plain(written.encode()) == left
    assert printable(written) == left
    assert left.replace("\t", "").isprintable()


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (b"10%\r20%\r30%\n", "30%"),
        (b"end\r\n", "end"),
        (b"1/9\x08\x08\x082/9\x08\x08\x083/9", "3/9"),
        (b"N\x08NA\x08AM\x08ME\x08E", "NAME"),
        (b"\x08\x08a", "a"),
        (b"10%\r50%\r\x1b[K\n", "50%"),
        (b"10%\rValueError: x\n", "ValueError: x"),
        (b"Epoch: 1\rEpoch: 2\n", "Epoch: 2"),
        (b"\x9b31m no UTF-8 \xff", "\ufffd31m no UTF-8 \ufffd"),
        (b"", ""),
    ],
)
def test_overwritten_text_is_removed_from_a_line(written, left):
    assert plain(written) == left


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (b"ValueError: a\rloss=nan\r\n", "ValueError: a loss=nan"),
        ("ValueError: a\r\u2028\n".encode(), "ValueError: a  "),
        (b"[rank1]: torch.cuda.OutOfMemoryError: a\rb\n", "[rank1]: torch.cuda.OutOfMemoryError: a b"),
    ],
)
def test_carriage_returns_in_the_message_of_an_exception_overwrite_nothing(written, left):
    assert plain(written) == left


def test_a_message_keeps_its_lines():
    assert printable("one\r\n\ttwo\n\x1b[1mthree\x1b[0m\ud800\n") == "one\n\ttwo\nthree\ufffd\n"


@pytest.mark.parametrize(
    "piece", ["\x1b]", "\x9d", "\x1b[1", "\x08", "\x1bP", "\x9b1;", "\x1b", "\r", "\u202e", "\x1b("]
)
def test_the_time_grows_linearly_with_the_line(piece):
    line = (piece * (300_000 // len(piece))).encode()

    begin = time.process_time()
    plain(line)

    # Quadratic time would be minutes.
    assert time.process_time() - begin < 2


def test_the_last_line_is_kept_however_long_it_is():
    assert last_lines(["a" * 10, "b" * 10], longest=8, most=5) == ("b" * 8 + CUT,)
    assert last_lines([], longest=8, most=5) == ()


@pytest.mark.parametrize(
    ("char", "kept"), [("a", "a" * 10), ("é", "é" * 5), ("€", "€" * 3), ("\U0001f600", "\U0001f600" * 2)]
)
def test_lines_are_cut_by_their_bytes_and_between_characters(char, kept):
    assert last_lines([char * 20], longest=10, most=100) == (kept + CUT,)
    size = len(char.encode())
    assert last_lines([char] * 3, longest=10, most=2 * size) == (char, char)
    assert last_lines([char] * 3, longest=10, most=3 * size - 1) == (char, char)
    assert last_lines([char] * 3, longest=size, most=3 * size) == (char, char, char)


def test_a_lone_surrogate_has_bytes_too():
    assert last_lines(["a", "\ud800"], longest=3, most=4) == ("a", "\ud800")
    assert last_lines(["a\ud800b"], longest=3, most=4) == ("a" + CUT,)
