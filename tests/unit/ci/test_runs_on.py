"""A run of pytest on another Python, Airflow or database than its stage of CI is named for."""

from __future__ import annotations

import platform
from importlib import metadata

import pytest

from tests import runs_on

PYTHON = ".".join(platform.python_version_tuple()[:2])
AIRFLOW = metadata.version("apache-airflow")


@pytest.mark.parametrize(
    ("wanted", "database", "wrong"),
    [
        ("", None, None),
        (f"python={PYTHON} airflow={AIRFLOW} database=sqlite", None, None),
        ("database=postgresql", "postgresql", None),
        ("database=postgresql", None, "database sqlite instead of postgresql"),
        ("python=3.9", None, f"python {PYTHON} instead of 3.9"),
        (f"python=3.9 airflow={AIRFLOW}.1", None, f"python {PYTHON} instead of 3.9, airflow {AIRFLOW} instead of"),
    ],
)
def test_what_a_run_is_on_is_what_its_stage_says(monkeypatch, wanted, database, wrong):
    monkeypatch.setenv("TRAINER_TEST_RUNS_ON", wanted)
    monkeypatch.delenv("TRAINER_RUNNER_DATABASE", raising=False)
    if database:
        monkeypatch.setenv("TRAINER_RUNNER_DATABASE", database)

    if wrong is None:
        runs_on.check()
    else:
        with pytest.raises(pytest.UsageError, match=f"^This run is on {wrong}"):
            runs_on.check()
