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


@pytest.mark.parametrize(
    ("message", "way_out"),
    [
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest": ...', "securityContext"),
        ('pods "a" is forbidden: failed quota: q: must specify limits.cpu for: train', "replicas.launcher.resources"),
        ('pods "a" is forbidden: no PriorityClass with name none was found', "correct what the message names"),
    ],
)
@pytest.mark.parametrize("reason", ["FailedCreate", "FailedCreatePod"])
def test_the_way_out_of_what_the_api_server_forbids(reason, message, way_out):
    cause = cause_of(reason, message)

    assert way_out in (cause.way_out or "")
    assert (cause.retry_can_help, cause.kind, cause.hope) == ("no", "rejected", "someone")
