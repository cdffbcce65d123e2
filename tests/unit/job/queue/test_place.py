"""A job's place in a queue, and what a log says of it."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.queue.notes import QueueNotes
from airflow_trainer_provider.job.queue.place import QueuePlace, Shortage, last_of

GPU = Shortage(resource="nvidia.com/gpu", flavor="a100", total=32, used=30, free=2, needed=4)


def place(position, length=30, **fields):
    return QueuePlace(name="team-nlp", position=position, length=length, **fields)


def unknown(why="No user says."):
    return QueuePlace(name="team-nlp", estimate_why=why)


@pytest.mark.parametrize(
    ("shortage", "text"),
    [
        (GPU, "needs 4 GPU, 2 free in a100"),
        (Shortage(resource="cpu", flavor=None, free=0.25, needed=1.5), "needs 1.5 CPU, 0.25 free"),
        (Shortage(resource="memory", needed=2.5 * 2**30, free=0), "needs 2.5 GiB memory, 0 free"),
        (Shortage(resource="acme.com/npu", flavor="x", needed=123456), "needs 123,456 acme.com/npu in x"),
        (Shortage(resource="acme.com/npu", needed=1234567), "needs 1,234,567 acme.com/npu"),
    ],
)
def test_a_shortage_in_words(shortage, text):
    assert shortage.text() == text


def test_a_job_of_several_parts_waits_for_its_last_one():
    assert last_of([]) is None
    assert last_of([place(2), place(5), place(3)]) == place(5)
    assert last_of([place(2), unknown()]) == unknown()


def test_the_log_says_now_and_then_how_the_queue_moves():
    notes = QueueNotes()
    said = [notes.note(place(position, position + 10)) for position in (30, 29, 28, 16, 15, 14, 8, 7, 3, 2, 1, 1)]

    assert [each for each in said if each] == [
        f"position {position} of {position + 10} in queue team-nlp" for position in (30, 15, 7, 3, 1)
    ]


def test_the_log_says_when_a_job_falls_back_and_what_is_missing():
    notes = QueueNotes()
    notes.note(place(4))

    assert notes.note(place(7)) is None
    assert notes.note(place(8, None, missing=(GPU,))) == "position 8 in queue team-nlp; needs 4 GPU, 2 free in a100"


def test_the_log_says_once_why_a_position_is_unknown():
    notes = QueueNotes()

    assert notes.note(None) is None
    assert notes.note(unknown()) == "position in queue team-nlp unknown: No user says"
    assert notes.note(unknown()) is None
    assert notes.note(place(3)) == "position 3 of 30 in queue team-nlp"
    assert notes.note(unknown()) is None


def test_a_place_that_a_newer_version_has_written_is_read():
    newer = place(3, missing=(GPU,)).model_dump(mode="json")
    newer["missing"][0]["future"] = newer["future"] = 1

    assert QueuePlace.model_validate(newer) == place(3, missing=(GPU,))
