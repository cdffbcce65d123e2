"""Lines out of pieces of any size."""

from __future__ import annotations

import random

import pytest

from airflow_trainer_provider.cluster.lines import split_blocks, split_lines


async def pieces(*given):
    for piece in given:
        yield piece


async def blocks(*given, longest=1000):
    return [block async for block in split_blocks(pieces(*given), longest)]


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

    assert found == [
        line if len(line) <= 10 else b"x" * 10 + f" [{len(line) - 10} more bytes of this line were cut]".encode()
        for line in lines
    ]
