"""When a question is asked again."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.queues import asked
from airflow_trainer_provider.cluster.queues.asked import Asked
from airflow_trainer_provider.errors import ApiError, BackendUnavailable


class Answers:
    """Answers one after the other, of which errors are raised."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def ask(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def now(monkeypatch):
    """The time, which a test sets."""
    now = [1000.0]
    monkeypatch.setattr(asked, "_SPREAD", 0.0)
    monkeypatch.setattr(asked.time, "monotonic", lambda: now[0])
    return now


async def pauses(now, question, count):
    """Seconds after each of so many questions until the next one."""
    found = []
    for _ in range(count):
        await question.refresh()
        found.append(question.due_in)
        now[0] += question.due_in
    return found


@pytest.mark.parametrize("every", [5.0, 300.0])
@pytest.mark.parametrize("failure", [ApiError("x", status=503), ApiError("x", status=401), BackendUnavailable("x")])
async def test_after_a_failure_it_is_soon_asked_again_however_seldom_otherwise(now, every, failure):
    question = Asked(Answers("a", *[failure] * 8, "b").ask, every)
    found = await pauses(now, question, 10)

    assert found[1:9] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert found[0] == found[9] == every
    assert question.answer == "b"


async def test_a_failure_in_the_middle_hides_nothing(now):
    question = Asked(Answers("a", ApiError("x", status=503)).ask, 300.0)
    await pauses(now, question, 2)

    assert (question.answer, question.error) == ("a", None)


async def test_failures_of_days_are_survived(now):
    question = Asked(Answers(*[ApiError("x", status=503)] * 1100).ask, 5.0)

    assert (await pauses(now, question, 1100))[-1] == 300


@pytest.mark.parametrize(("status", "pause"), [(403, 300), (404, 60)])
async def test_what_is_refused_or_not_there_is_asked_for_much_later(now, status, pause):
    question = Asked(Answers("a", ApiError("x", status=status)).ask, 5.0)

    assert (await pauses(now, question, 2))[1] == pause
    assert question.answer is None
    assert question.error.status == status
