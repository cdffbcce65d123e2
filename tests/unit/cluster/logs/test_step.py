"""What the reader of a container's log does next."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.logs.step import Known, Step, next_step
from tests.unit.flags import check_rows, combined

GONE, IN_DOUBT, JOB_ENDED, MISSING, OVER, READ = sorted(Known, key=lambda fact: fact.name)
ROWS = [
    ([READ, OVER], [GONE, MISSING, JOB_ENDED, IN_DOUBT], Step.STOP),
    ([GONE], [OVER, MISSING, JOB_ENDED, IN_DOUBT], Step.GIVE_UP),
    ([GONE, READ], [MISSING, JOB_ENDED, IN_DOUBT], Step.GIVE_UP),
    ([MISSING], [OVER, JOB_ENDED, IN_DOUBT], Step.WAIT),
    ([MISSING, READ], [JOB_ENDED, IN_DOUBT], Step.WAIT),
    ([READ, JOB_ENDED], [IN_DOUBT], Step.LOOK),
    ([READ], [IN_DOUBT], Step.WAIT),
    ([IN_DOUBT], [OVER, JOB_ENDED], Step.LOOK),
    ([], [OVER, JOB_ENDED], Step.READ),
]


@pytest.mark.parametrize(("needed", "beside", "step"), ROWS)
def test_a_step_follows_from_what_is_known_whatever_else_holds(needed, beside, step):
    for known in combined(needed, beside, Known):
        assert next_step(known) is step


def test_the_rows_are_of_all_that_can_be_known():
    check_rows(ROWS, Known)
