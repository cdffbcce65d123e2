"""The soak's judgement: what it takes for right."""

from __future__ import annotations

import pytest

from benchmarks.soak import Fault, Found, Job

SUCCEEDED = {"end": "concluded", "summary": {"name": "a", "phase": "succeeded"}, "failure": None}
FAILED = {"end": "concluded", "summary": None, "failure": {"job": "a", "reason": "DeadlineExceeded"}}
LOST = {"end": "error", "message": "Training job a is gone: it was deleted.", "retryable": False}
ENDS = {"succeeded": SUCCEEDED, "failed": FAILED, "deleted": LOST}


def ended(end, *events):
    return Job("a", end, "DeadlineExceeded" if end == "failed" else "", asked=10, done=11, events=list(events))


@pytest.mark.parametrize("end", ENDS)
def test_right_events(end):
    assert ended(end, (11.5, ENDS[end])).complaint() is None
    assert ended(end, (11.5, ENDS[end])).latency == 500
    assert Job("a").complaint() is None


@pytest.mark.parametrize(("end", "reported"), [(end, other) for end in ENDS for other in ENDS if end != other])
def test_a_wrong_event(end, reported):
    assert ended(end, (11.5, ENDS[reported])).complaint().startswith(f"a has {end}, and was reported to be {{")


@pytest.mark.parametrize(
    ("end", "payload"),
    [
        ("succeeded", SUCCEEDED | {"summary": {"name": "b", "phase": "succeeded"}}),
        ("failed", FAILED | {"failure": {"job": "a", "reason": "BackoffLimitExceeded"}}),
        ("failed", FAILED | {"failure": {"job": "b", "reason": "DeadlineExceeded"}}),
        ("deleted", LOST | {"message": "the API server cannot be reached"}),
        ("succeeded", {"end": "crashed", "message": "KeyError('a')"}),
        ("succeeded", {"end": "timed out"}),
    ],
)
def test_an_event_that_is_nearly_right(end, payload):
    assert "was reported to be" in ended(end, (11.5, payload)).complaint()


def test_too_many_too_few_and_too_early():
    event = (11.5, SUCCEEDED)
    assert ended("succeeded").complaint() == "a has succeeded, and 0 events were reported"
    assert ended("succeeded", event, event).complaint() == "a has succeeded, and 2 events were reported"
    assert ended("succeeded", (9.75, SUCCEEDED)).complaint() == "a has succeeded, and was reported so 0.250 s too early"
    assert Job("a", events=[event]).complaint().startswith("a runs, and was reported to have ended: {")


def test_an_end_whose_answer_was_lost_may_be_reported_before_it_is_asked_for_again():
    job = ended("succeeded", (10.5, SUCCEEDED))
    assert job.complaint() is None
    assert job.latency == 0


@pytest.mark.parametrize(
    ("begun", "finished", "times"),
    [
        (9, 12, "met a fault"),
        (11, 11, "met a fault"),
        (6, 6, "met a fault"),
        (4, 4.5, "met none"),
        (12, 13, "met none"),
    ],
)
def test_what_times_they_were(begun, finished, times):
    found = Found(1, faults=[Fault("cut", begun, finished)], at_once=20)
    assert found.times(ended("succeeded", (11.5, SUCCEEDED))) == times
    found.at_once = 10
    assert found.times(ended("succeeded", (11.5, SUCCEEDED))) == "came all at once, afterwards"
