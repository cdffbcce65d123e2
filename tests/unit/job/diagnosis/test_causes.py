"""The table of verdicts in the documentation is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_trainer_provider.job.diagnosis.causes import _CAUSES, INIT, cause_of

_TABLE = Path(__file__).parents[4] / "docs" / "reference" / "errors.md"
_ROWS = [
    (reason, helps, infrastructure)
    for reasons, helps, infrastructure in re.findall(
        r"^\| (`.+?) \| (yes|no|unknown) \| (yes|no) \|", _TABLE.read_text(), re.MULTILINE
    )
    for reason in re.findall(r"`(\w+)`", reasons)
]
#: In the table, and without a row in the code: what says nothing of the next try, and one of a whole family.
_WITHOUT_A_ROW = {"Error", "BackoffLimitExceeded", "OutOfcpu"}


@pytest.mark.parametrize(("reason", "helps", "infrastructure"), _ROWS)
def test_a_row_of_the_table(reason, helps, infrastructure):
    for word in (reason, f"{INIT}{reason}"):
        cause = cause_of(word)
        assert (cause.retry_can_help, cause.infrastructure) == (helps, infrastructure == "yes")


def test_the_table_has_every_reason_once():
    reasons = [reason for reason, _, _ in _ROWS]

    assert sorted(reasons) == sorted(_CAUSES.keys() | _WITHOUT_A_ROW)


def test_an_unlisted_reason_is_unknown():
    assert cause_of("Unheard") == cause_of(None)
    assert cause_of(None).retry_can_help == "unknown"
