"""The local backend over a folder of each test's own."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.local.processes import end_all
from tests.local.jobs import Jobs

HERE = Path(__file__).parent
#: What the heavy tests here need. Where they are asked for (make test-heavy), a missing one is a failure.
HEAVY_PACKAGES = ("torch", "transformers", "accelerate", "tensorflow", "jax", "paddle")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        # Longer than a test waits for a job, on a machine that stalls.
        if HERE in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))
    asked_for = "heavy" in config.option.markexpr
    missing = [package for package in HEAVY_PACKAGES if importlib.util.find_spec(package) is None]
    if asked_for or not missing:
        return
    skip = pytest.mark.skip(reason=f"not installed: {', '.join(missing)} (make test-heavy)")
    for item in items:
        if item.get_closest_marker("heavy") and "tests/local/" in item.nodeid:
            item.add_marker(skip)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """Runs jobs; the processes of one that has not ended are killed after the test."""
    root = tmp_path / "jobs"
    yield Jobs(LocalBackend(root, poll_interval=0.1, keep=None))
    for record in root.glob("*/job.json"):
        (record.parent / "cancel").write_text("the test is over")
        end_all(json.loads(record.read_text())["uid"])


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Writes a training script; returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(text)
        return str(path)

    return write
