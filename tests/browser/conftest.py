"""A finished demo run in a real Airflow, and a browser to look at it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.airflow.conftest import FOLDERS
from tests.browser.checks import axe_script
from tools.airflow_runner import AirflowInstance
from tools.airflow_runner.code import CHECKOUT
from tools.airflow_runner.demo import DAG_ID

PICTURES = CHECKOUT / "docs" / "_static" / "screenshots"

#: Milliseconds for whatever a page has to do, on a busy machine.
TIMEOUT = 60_000
#: Seconds for a test with its fixtures, where it is not marked with another limit: the first one waits for an Airflow.
LIMIT = 600

CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test here its limit: the hook has those of all folders."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))


@dataclass(frozen=True)
class Run:
    """A run of a DAG.

    :param page: its address in the UI.
    """

    page: str

    def task(self, task_id: str, tab: str = "") -> str:
        """The address of a task's page, at one of its tabs."""
        return f"{self.page}/tasks/{task_id}{tab}"


@pytest.fixture(scope="session")
def airflow() -> Iterator[AirflowInstance]:
    """An Airflow that is set up as make up does it."""
    # Pages show paths: these are short, and the same on all machines.
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        dags = shutil.copytree(CHECKOUT / "dags", Path(folder) / "dags", ignore=shutil.ignore_patterns("__pycache__"))
        with AirflowInstance(Path(folder) / "airflow", [dags], FOLDERS) as airflow:
            yield airflow


@pytest.fixture(scope="session")
def run(airflow: AirflowInstance) -> Run:
    """The demo's run, ended well."""
    run_id = airflow.trigger_dag(DAG_ID)
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)
    return Run(f"{airflow.url}/dags/{DAG_ID}/runs/{run_id}")


@pytest.fixture(scope="session")
def _page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light", reduced_motion="reduce")
        page.set_default_timeout(TIMEOUT)
        expect.set_options(timeout=TIMEOUT)
        yield page
        browser.close()


@pytest.fixture
def page(_page: Page) -> Iterator[Page]:
    """A page whose scripts must not fail."""
    errors: list[str] = []
    note = lambda error: errors.append(str(error))  # noqa: E731
    _page.on("pageerror", note)
    yield _page
    _page.remove_listener("pageerror", note)
    assert errors == []


@pytest.fixture
def picture(page: Page, tmp_path: Path) -> Callable[[str], None]:
    """Save what the browser shows: for the docs where UPDATE_SCREENSHOTS is set, which `make screenshots` does."""
    folder = PICTURES if os.environ.get("UPDATE_SCREENSHOTS") else tmp_path

    def save(name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # Viewers colour their text some time after they have written it.
        page.wait_for_timeout(500)
        page.screenshot(path=folder / f"{name}.png", animations="disabled")

    return save


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker's script."""
    return axe_script(tmp_path_factory.mktemp("axe"))
