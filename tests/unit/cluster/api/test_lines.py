"""Lines out of pieces of any size."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from airflow_trainer_provider.cluster.api.lines import split_blocks, split_lines
from airflow_trainer_provider.text.printable import LONGEST_LINE_BYTES, plain

CUT = b" [the rest of this line was cut]"
TIME = b"2026-01-01T00:00:00.000000001Z "


async def pieces(*given):
    for piece in given:
        yield piece


async def blocks(*given, longest=1000, **options):
    return [block async for block in split_blocks(pieces(*given), longest, **options)]


async def test_lines_that_come_together_stay_together():
    assert await blocks(b"a\nb\nc", b"d\n\ne\n", b"f") == [b"a\nb", b"cd\n\ne", b"f"]
    assert await blocks(b"a", b"b", b"\n", b"\n", b"\n") == [b"ab", b"", b""]
    assert await blocks() == []


async def test_no_block_is_large():
    line = b"x" * 99 + b"\n"
    found = await blocks(line * 5000, longest=2**20)
    assert max(map(len, found)) <= 32 * 1024
    assert b"\n".join(found) + b"\n" == line * 5000


@pytest.mark.parametrize("seed", range(20))
async def test_the_lines_are_the_same_however_they_arrive(seed):
    chance = random.Random(seed)
    lines = [b"x" * chance.choice((0, 1, 9, 10, 11, 25)) for _ in range(200)]
    stream = b"\n".join(lines) + b"\n"
    cuts = sorted(chance.sample(range(len(stream)), 50))
    given = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]

    found = [line async for line in split_lines(pieces(*given), 10)]

    assert found == [line if len(line) <= 10 else b"x" * 10 + CUT for line in lines]


@pytest.mark.parametrize("size", [1, 7, 300, 5000])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"\rstep 1" * 500, b"step 1"),
        (b"step 1\r" * 500, b"step 1"),
        (b"begin" + b"\rstep 1" * 500 + b"\r\n", b"step 1"),
        (b"x" * 500 + b"\r" + b"y" * 50, b"y" * 50),
        (b"a\r" + b"x" * 500, b"x" * (99 - len(TIME)) + CUT),
        (b"x" * 500, b"x" * (100 - len(TIME)) + CUT),
    ],
)
async def test_of_a_long_line_what_a_terminal_shows_in_the_end_is_kept(size, text, shown):
    stream = TIME + text.removesuffix(b"\n") + b"\n" + TIME + b"next"
    given = [stream[start : start + size] for start in range(0, len(stream), size)]

    found = b"\n".join(await blocks(*given, longest=100, overwritten=True)).split(b"\n")

    assert [line[: len(TIME)] for line in found] == [TIME, TIME]
    assert [plain(line[len(TIME) :]).encode() for line in found] == [shown, b"next"]


async def test_a_line_without_an_end_does_not_fill_the_memory():
    async def progress():
        for _ in range(300):
            yield b"\rstep 1" * 9000

    tracemalloc.start()
    found = [block async for block in split_blocks(progress(), LONGEST_LINE_BYTES, overwritten=True)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(found) == 1
    assert peak < 4 * LONGEST_LINE_BYTES
