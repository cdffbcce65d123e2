"""Times of lines."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.logs.cursor import Deduplicator, LogCursor, split_time

SECOND = 10**9
AT = 1_700_000_000 * SECOND


@pytest.mark.parametrize(
    ("line", "at", "text"),
    [
        (b"2023-11-14T22:13:20.123456789Z a b", AT + 123456789, b"a b"),
        (b"2023-11-14T22:13:20.123456789Z ", AT + 123456789, b""),
        (b"2023-11-14T22:13:20.5Z a", AT + SECOND // 2, b"a"),
        (b"2023-11-14T22:13:20Z a", AT, b"a"),
        (b"2023-11-15T00:13:20.123456789+02:00 a", AT + 123456789, b"a"),
        (b"2023-11-14T22:13:20.123456789Zulu", AT + 123456789, b"ulu"),
        (b"no time here", None, b"no time here"),
        (b"xxxx-11-14T22:13:20.123456789Z a", None, b"xxxx-11-14T22:13:20.123456789Z a"),
        (b"2023-11-14T22:13:20.12345678xZ a", None, b"2023-11-14T22:13:20.12345678xZ a"),
        (b"", None, b""),
    ],
)
def test_a_line_and_its_time(line, at, text):
    assert split_time(line) == (at, text)


def test_a_line_counts_as_shown_when_it_is_taken():
    cursor = LogCursor()
    emitted = cursor.emit("uid", "main", [(AT, "a"), (AT, "b"), (AT + 1, "c"), (AT, "d")])
    assert cursor.of("uid", "main") == (0, 0)
    assert (next(emitted), cursor.of("uid", "main")) == ("a", (AT, 1))
    assert (next(emitted), cursor.of("uid", "main")) == ("b", (AT, 2))
    assert list(emitted) == ["c", "d"]
    assert cursor.of("uid", "main") == (AT + 1, 1)


@pytest.mark.parametrize("step", [0, 1, 3])
def test_what_was_read_is_not_new_after_a_break(step):
    times = [AT + step * number for number in range(2000)]
    deduplicator = Deduplicator(0, 0)
    assert deduplicator.new_of(times[:1500]) == 0
    assert deduplicator.new_of(times[1500:1510]) == 0
    deduplicator.resume()
    # From the second on from which the API resumes.
    assert deduplicator.new_of(times[:1000]) == 1000
    assert deduplicator.new_of(times[1000:1600]) == 510
    assert deduplicator.new_of(times[1600:]) == 0
