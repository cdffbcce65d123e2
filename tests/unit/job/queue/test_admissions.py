"""Estimates of the start of jobs in a queue. The queue and its clock are made up."""

from __future__ import annotations

import heapq
import random
from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.job.queue.admissions import LEAST, MOST, Admissions
from airflow_trainer_provider.job.queue.place import Estimate

START = 1_800_000_000.0


def seen(*times, queued_at=-10.0):
    admissions = Admissions()
    for number, at in enumerate(times):
        admissions.note(f"job-{number}", START + queued_at, START + at)
    return admissions


def ends(estimate):
    assert isinstance(estimate, Estimate), estimate
    return estimate.earliest.timestamp() - START, estimate.latest.timestamp() - START


def test_a_regular_queue_has_a_narrow_range():
    earliest, latest = ends(seen(*range(0, 600, 60)).estimate(5, START + 550))

    assert earliest < 540 + 5 * 60 < latest
    assert latest - earliest < 120


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_most_jobs_start_within_their_range(slots, spread):
    """Forty jobs that wait from the start; each runs for a minute, more or less, beside others."""
    source, hits, ranges = random.Random(slots), 0, 0
    for _ in range(20):
        running, now, admitted = [], 0.0, []
        for _ in range(40):
            if len(running) == slots:
                now = heapq.heappop(running)
            heapq.heappush(running, now + source.uniform(1 - spread, 1 + spread) * 60)
            # Kueue has its times in whole seconds.
            admitted.append(float(int(now)))
        for known in range(LEAST, 40):
            admissions = seen(*admitted[:known], queued_at=-1)
            for position in range(1, 41 - known):
                found = admissions.estimate(position, START + admitted[known - 1])
                if isinstance(found, str):
                    continue
                earliest, latest = ends(found)
                ranges += 1
                hits += earliest <= admitted[known + position - 1] <= latest

    assert hits / ranges > 0.85, hits / ranges


def test_room_that_becomes_free_at_once_makes_no_range_wide():
    times = [second for minute in range(10) for second in (60 * minute, 60 * minute, 60 * minute)]

    earliest, latest = ends(seen(*times).estimate(9, START + 545))

    assert earliest < 540 + 180 < latest
    # With gaps that are independent of each other it would be 214 s.
    assert latest - earliest < 175


def test_times_without_a_job_that_waits_do_not_count():
    admissions = seen(*range(0, 60, 10))
    for number in range(20):
        at = START + 1000 + 3600 * number
        admissions.note(f"alone-{number}", at - 5, at)
    for number in range(1, 6):
        admissions.note(f"late-{number}", START, START + 1000 + 3600 * 19 + 10 * number)

    found = admissions.estimate(2, START + 1000 + 3600 * 19 + 50)

    assert found.basis == "From the last 11 admissions to this queue: one every 10 s."


def test_what_goes_on_for_longer_than_before_counts():
    admissions = seen(*range(0, 600, 60))
    before, later = (ends(admissions.estimate(1, START + 540 + idle)) for idle in (10, 150))

    assert later[1] - before[1] > 80


@pytest.mark.parametrize(
    ("times", "now", "why"),
    [
        ((), 10, "Too few admissions to this queue were seen while jobs waited: 0 of 6."),
        ((1,), 10, "Too few admissions to this queue were seen while jobs waited: 1 of 6."),
        (range(LEAST - 1), 10, "Too few admissions to this queue were seen while jobs waited: 5 of 6."),
        (range(0, 600, 60), 6000, "No job was admitted for 91 min; before that it was one every 60 s."),
    ],
)
def test_without_a_basis_there_is_no_estimate(times, now, why):
    assert seen(*times).estimate(3, START + now) == why


def test_each_admission_counts_once_and_only_the_last_ones_are_kept():
    assert MOST == 60
    admissions = Admissions()
    for number in range(3 * MOST):
        at = START + 10 * number + (10 * MOST if number >= 2 * MOST else 0)
        assert admissions.note(f"job-{number}", START - 1, at)
        assert not admissions.note(f"job-{number}", START - 1, at)
    assert not admissions.note("long ago", START - 2, START - 1)

    assert f"the last {MOST} admissions" in admissions.estimate(1, at).basis
    assert admissions.estimate(1, at).earliest.tzinfo is timezone.utc
    assert admissions.estimate(1, at).latest > datetime.fromtimestamp(at, timezone.utc)
