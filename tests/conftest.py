"""What all tests begin with: an Airflow of their own, which tests run at once, and what CI asks for."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests import loop_checks, runs_on, second_chance

# Before the first import of airflow, which reads its configuration there, and writes it where there is none.
for _name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
    del os.environ[_name]
_AIRFLOW_HOME = os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-home-")

# A machine that is busy with other tests is slow now and then.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

#: Tests that take turns: those of a group share one Airflow, and jobs of large frameworks need both cores. A test is of
#: the first group that fits. Where no cluster runs, there is room for two Airflows.
_TURNS = (
    # They share a process of Airflow.
    ("tests/local/test_examples.py",),
    # Airflows that have no scheduler.
    ("tests/airflow/test_doors.py",),
    # They have Airflows of their own.
    (
        "tests/airflow/test_deployments.py",
        "tests/airflow/test_crowd.py",
        "tests/airflow/test_lineage.py",
        "tests/airflow/test_training_view.py",
    ),
    (
        "tests/airflow/test_train_jobs_faults.py",
        "tests/airflow/test_lost_contact.py",
        "tests/airflow/test_presets.py",
        "tests/airflow/test_progress.py",
        "tests/airflow/test_secrets.py",
    ),
    ("tests/airflow/",),
    ("tests/cluster/airflow/",),
    ("tests/cluster/test_job_kinds.py", "tests/cluster/test_job_manifests.py"),
)


def pytest_configure(config: pytest.Config) -> None:
    """Check event loops, and give CI what it asks for."""
    runs_on.check()
    loop_checks.register(config)
    second_chance.register(config)


def pytest_unconfigure() -> None:
    """Remove the home of Airflow that the tests had."""
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


class Turns(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process test after test, but all that take turns to one.

    xdist's own marker for this, ``xdist_group``, has no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((group[0] for group in _TURNS if nodeid.startswith(group)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Schedule the light tests and those on a cluster; --dist=load, pytest's default, stays as it is."""
    return Turns(config, log) if config.option.dist == "loadscope" else None
