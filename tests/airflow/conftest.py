"""One real Airflow for all tests of this folder."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airflow_trainer_provider.job.status import JobStatus
from airflow_trainer_provider.local.run_folder import RunFolder
from tests.airflow.jobs import JobFolder
from tools.airflow_runner import AirflowInstance

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "dags"

#: A worker, a triggerer or a scheduler that was killed is noticed after seconds, where the defaults are 5 minutes. One
#: that a busy machine stalls for ten seconds does not count as killed.
QUICK_TO_NOTICE = {
    "scheduler": {
        "scheduler_heartbeat_sec": "1",
        "task_instance_heartbeat_timeout": "30",
        "task_instance_heartbeat_timeout_detection_interval": "2",
        "orphaned_tasks_check_interval": "5",
        "scheduler_health_check_threshold": "15",
    },
    "triggerer": {"job_heartbeat_sec": "1", "triggerer_health_check_threshold": "8"},
}
#: The policies are for the DAGs of test_presets.py alone. Few tasks run at once, and the scheduler notes the end of a
#: worker sooner than in an Airflow that is full.
TRAINER = {
    "trainer": {
        "presets_folder": str(HERE / "presets"),
        "policies_folder": str(HERE / "policies"),
        "worker_exit_seconds": "3",
    }
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time that its waits for Airflow may take one after the other on a machine that stalls."""
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


class AirflowUnderTest(AirflowInstance):
    """An Airflow whose local jobs the tests can look at."""

    def status_of(self, job: str) -> JobStatus:
        """The status of a local job.

        :param job: its name.
        """
        status = RunFolder(self.home / "trainer" / job).read_status()
        assert status is not None
        return status


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[JobFolder]:
    """Where a test job meets its test; it comes to its end with the test."""
    folder = JobFolder(tmp_path)
    yield folder
    folder.go()


@pytest.fixture(scope="session")
def planted() -> str:
    """The prefix of all secrets in dags/secrets.py. Only the environment of Airflow contains it."""
    return f"Planted7{uuid.uuid4().hex}"


class _Shared:
    """The Airflow of all tests that need none of their own."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._instance: AirflowUnderTest | None = None

    def instance(self, tmp_path_factory: pytest.TempPathFactory, env: Mapping[str, str]) -> AirflowUnderTest:
        """The Airflow, which is started where there is none."""
        if self._instance is None:
            home, config = tmp_path_factory.mktemp("airflow") / "home", {**QUICK_TO_NOTICE, **TRAINER}
            instance = AirflowUnderTest(home, [EXAMPLES, HERE / "dags"], config=config, env=env)
            self._instance = self._running.enter_context(instance)
        return self._instance

    def end(self) -> None:
        self._instance = None
        self._running.close()


_shared = _Shared()


@pytest.fixture
def airflow(tmp_path_factory: pytest.TempPathFactory, planted: str) -> AirflowUnderTest:
    """A running Airflow over the examples in dags/ and the DAGs in tests/airflow/dags/."""
    return _shared.instance(tmp_path_factory, {"AIRFLOW_VAR_PLANTED": planted})


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the Airflow with the last test of this folder: even one that does nothing takes half a core."""
    if nextitem is None or HERE not in nextitem.path.parents:
        _shared.end()


def pytest_sessionfinish() -> None:
    """End the Airflow of a run that was interrupted."""
    _shared.end()
