"""The phase of a job whose replicas wait."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.kinds.status.waiting import Waits, phase_of_waiting
from tests.unit.flags import check_rows, combined

AGAIN, HINDERED, NO_NODE, NO_ROOM = sorted(Waits, key=lambda fact: fact.name)
ROWS = [
    ([AGAIN], [HINDERED, NO_NODE, NO_ROOM], JobPhase.RESTARTING),
    ([NO_ROOM], [HINDERED, NO_NODE], JobPhase.QUEUED),
    ([HINDERED], [NO_NODE], JobPhase.STARTING),
    ([NO_NODE], [], JobPhase.QUEUED),
    ([], [], JobPhase.STARTING),
]


@pytest.mark.parametrize(("needed", "beside", "phase"), ROWS)
def test_a_phase_follows_from_what_holds_of_the_replicas_that_wait(needed, beside, phase):
    for waits in combined(needed, beside, Waits):
        assert phase_of_waiting(waits) is phase


def test_the_rows_are_of_all_that_can_hold():
    check_rows(ROWS, Waits)
