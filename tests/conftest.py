"""Which tests run at once, where several do, and which run again in CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# A machine that is busy with other tests is slow now and then.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

#: Tests that take turns: those of a group share one Airflow, and jobs of large frameworks need both cores. A test is of
#: the first group that fits. Where no cluster runs, there is room for two Airflows.
_TURNS = (
    # They have Airflows of their own.
    ("tests/airflow/test_doors.py", "tests/airflow/test_lineage.py", "tests/airflow/test_training_view.py"),
    ("tests/airflow/test_train_jobs_faults.py", "tests/airflow/test_presets.py", "tests/airflow/test_secrets.py"),
    ("tests/airflow/",),
    ("tests/cluster/airflow/",),
    ("tests/cluster/test_job_kinds.py", "tests/cluster/test_smoke.py"),
)


#: Names the folder in which CI collects reports.
_REPORTS = "TRAINER_TEST_REPORTS"


class Reruns:
    """Writes down each test that failed and was run again, for the closing table.

    :param file: one line for each.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the report of one phase of a test."""
        if report.outcome == "rerun":  # type: ignore[comparison-overlap]
            crash = getattr(report.longrepr, "reprcrash", None)
            raised = str(crash.message if crash else report.longrepr).partition("\n")[0]
            with self._file.open("a") as file:
                file.write(f"{report.nodeid}: {raised}\n")


def pytest_configure(config: pytest.Config) -> None:
    """Run a test of CI that fails once more: two cores run real clusters and Airflows, and starve one now and then."""
    if not os.environ.get("CI"):
        return
    if config.option.reruns is None:
        config.option.reruns = 1
    # Each process that runs tests reports to the one that started it.
    if os.environ.get(_REPORTS) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reruns(Path(os.environ[_REPORTS]) / "reruns"))


class Turns(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process test after test, but all that take turns to one.

    xdist's own marker for this, ``xdist_group``, has no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((group[0] for group in _TURNS if nodeid.startswith(group)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Schedule the light tests and those on a cluster; --dist=load, pytest's default, stays as it is."""
    return Turns(config, log) if config.option.dist == "loadscope" else None
