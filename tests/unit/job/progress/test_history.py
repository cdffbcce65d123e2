"""Histories are thinned: few points, the same extremes."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from airflow_trainer_provider.job.progress.history import MOST_POINTS, History, Point, thinned

VALUES = st.one_of(st.integers(-(10**6), 10**6).map(float), st.sampled_from([math.nan, math.inf, -math.inf]))


def _points(history, name):
    return [
        (entry["attempt"], *row)
        for entry in history.to_json()[name]
        for row in zip(entry["step"], entry["at"], entry["value"], strict=True)
    ]


@given(
    values=st.lists(VALUES, min_size=1, max_size=60),
    repeat=st.integers(1, 60),
    has_steps=st.booleans(),
    jump=st.sampled_from([1, 7, 10**12]),
)
def test_few_points_are_kept_and_the_extremes_among_them(values, repeat, has_steps, jump):
    history, step = History(), 0
    every = values * repeat
    for at, value in enumerate(every):
        step += jump if at % 97 == 0 else 1
        history.add("loss", 0, step if has_steps else None, float(at), value)

    kept = _points(history, "loss")
    assert len(kept) <= MOST_POINTS
    found, given_ = [point[3] for point in kept], [value for value in every if math.isfinite(value)]
    if given_:
        finite = [value for value in found if value is not None]
        assert (min(finite), max(finite)) == (min(given_), max(given_))
    assert (None in found) == (len(given_) < len(every))
    assert [point[2] for point in kept] == sorted(point[2] for point in kept)
    # The last ones are all there.
    assert [point[2] for point in kept[-50:]] == [float(at) for at in range(len(every))][-min(50, len(kept)) :]


@given(count=st.integers(501, 3000), limit=st.sampled_from([93, 500]))
def test_thinning_leaves_room(count, limit):
    points = [Point(at // 700, at % 700, float(at), float(at * 7919 % 1000)) for at in range(count)]

    kept = thinned(points, limit)

    assert len(kept) <= limit - limit // 5 + 1
    assert {min(points, key=lambda p: p.value).value, max(points, key=lambda p: p.value).value} <= {
        point.value for point in kept
    }


def test_the_same_step_replaces_and_an_attempt_has_columns_of_its_own():
    history = History()
    for attempt, step, value in ((0, 1, 5.0), (0, 2, 4.0), (0, 2, math.nan), (1, 1, 3.123456789)):
        history.add("loss", attempt, step, 10.00049 + step, value)

    assert history.to_json() == {
        "loss": [
            {"attempt": 0, "step": [1, 2], "at": [11.0, 12.0], "value": [5.0, None]},
            {"attempt": 1, "step": [1], "at": [11.0], "value": [3.123457]},
        ]
    }
    assert History.parse(history.to_json()) == history


def test_many_metrics_share_the_room():
    history = History()
    for at in range(700):
        for name in range(32):
            history.add(f"m{name}", 0, at, float(at), float(at % 13))

    counts = [len(_points(history, name)) for name in history.to_json()]
    assert sum(counts) <= 3000
    assert min(counts) > 50


def test_a_point_has_no_dictionary_of_its_own():
    assert not hasattr(Point(0, 1, 2.0, 3.0), "__dict__")
