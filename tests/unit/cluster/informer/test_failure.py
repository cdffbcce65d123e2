"""What a watch does after a failed attempt."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.informer.failure import REACTIONS, Failure, Reaction, Seen, failure_of
from tests.unit.flags import check_rows, combined

AGAIN, FORBIDDEN, GONE, SILENT = sorted(Seen, key=lambda fact: fact.name)
ROWS = [
    ([GONE, AGAIN], [FORBIDDEN, SILENT], Failure.EXPIRED_AGAIN),
    ([GONE], [FORBIDDEN, SILENT], Failure.EXPIRED),
    ([FORBIDDEN], [AGAIN, SILENT], Failure.FORBIDDEN),
    ([SILENT], [AGAIN], Failure.SILENT),
    ([], [AGAIN], Failure.OTHER),
]


@pytest.mark.parametrize(("needed", "beside", "failure"), ROWS)
def test_a_failure_follows_from_what_is_seen_whatever_else_holds(needed, beside, failure):
    for seen in combined(needed, beside, Seen):
        assert failure_of(seen) is failure


def test_the_rows_are_of_all_that_can_be_seen():
    check_rows(ROWS, Seen)


@pytest.mark.parametrize(
    ("failure", "reaction"),
    [
        (Failure.EXPIRED, Reaction(lists_again=True, pauses=False, is_outage=False)),
        (Failure.EXPIRED_AGAIN, Reaction(lists_again=True, pauses=True, is_outage=False)),
        (Failure.FORBIDDEN, Reaction(lists_again=True, pauses=True, is_outage=False)),
        (Failure.SILENT, Reaction(lists_again=True, pauses=True, is_outage=True)),
        (Failure.OTHER, Reaction(lists_again=False, pauses=True, is_outage=True)),
    ],
)
def test_a_reaction_follows_from_each_failure(failure, reaction):
    assert REACTIONS[failure] == reaction


def test_each_failure_has_a_reaction():
    assert set(REACTIONS) == set(Failure)
