"""Answers that hold for a while."""

from __future__ import annotations

import asyncio

import pytest

from airflow_trainer_provider.cluster.remembered import Remembered


class _Asked:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.times = 0

    async def __call__(self):
        self.times += 1
        await asyncio.sleep(0.01)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_one_asks_for_all():
    ask, remembered = _Asked("yes"), Remembered(60)

    assert await asyncio.gather(*(remembered.get("a", ask) for _ in range(100))) == ["yes"] * 100
    assert await remembered.get("a", ask) == "yes"
    assert ask.times == 1


async def test_an_old_answer_is_asked_for_again():
    ask, remembered = _Asked("yes", "no"), Remembered(0)

    assert [await remembered.get("a", ask), await remembered.get("a", ask)] == ["yes", "no"]


async def test_an_error_is_not_remembered():
    ask, remembered = _Asked(OSError("away"), "yes"), Remembered(60)

    with pytest.raises(OSError, match="away"):
        await remembered.get("a", ask)
    assert await remembered.get("a", ask) == "yes"


async def test_who_gives_up_takes_nothing_from_the_others():
    ask, remembered = _Asked("yes"), Remembered(60)
    first, second = (asyncio.create_task(remembered.get("a", ask)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert await second == "yes"
    assert ask.times == 1


async def test_after_its_end_it_asks_again():
    ask, remembered = _Asked("yes", "again"), Remembered(60)
    waiting = asyncio.create_task(remembered.get("a", ask))
    await asyncio.sleep(0)
    remembered.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert await remembered.get("a", ask) == "yes"
