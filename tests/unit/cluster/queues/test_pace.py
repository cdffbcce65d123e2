"""How often a queue is asked."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.queues import queue
from airflow_trainer_provider.cluster.queues.pace import at_least, pace
from airflow_trainer_provider.cluster.queues.state import Position, Positions


@pytest.mark.parametrize(("position", "seconds"), [(1, 5), (10, 5), (20, 18.75), (30, 32.5), (50, 60), (999, 60)])
def test_the_further_behind_the_less_often(position, seconds):
    assert pace(position) == seconds


@pytest.mark.parametrize(
    ("uid", "length", "position"),
    [("known", 20, 20), ("known", None, 20), ("new", 20, 1), ("behind the list", None, 50)],
)
def test_what_is_not_listed_has_come_since_or_is_far_behind(uid, length, position):
    assert at_least(Positions({"known": Position(20, 30)}, length), uid) == position


def test_the_quota_is_asked_for_each_ten_seconds_for_one_of_the_first():
    assert queue.QUOTA_EVERY == 10
