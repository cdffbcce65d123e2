"""The table of verdicts in the documentation is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_trainer_provider.job.causes import INIT, cause_of

_TABLE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"
_ROWS = re.findall(r"^\| `(\w+)` \| (yes|no|unknown) \| (yes|no) \|", _TABLE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("reason", "helps", "infrastructure"), _ROWS)
def test_a_row_of_the_table(reason, helps, infrastructure):
    for word in (reason, f"{INIT}{reason}"):
        cause = cause_of(word)
        assert (cause.retry_can_help, cause.infrastructure) == (helps, infrastructure == "yes")


def test_the_table_was_found():
    assert len(_ROWS) > 30


def test_a_reason_that_nobody_knows_is_unknown():
    assert cause_of("Unheard") == cause_of(None)
    assert cause_of(None).retry_can_help == "unknown"
