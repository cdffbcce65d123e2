"""Real jobs in a real Airflow below a path of its host, and a browser with a user who has logged in there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Frame, Page, expect

from tests.airflow.conftest import AirflowUnderTest
from tests.airflow.users import log_in, user_settings
from tests.browser.checks import TRAINING_TAB
from tests.browser.conftest import TIMEOUT

HERE = Path(__file__).parent
#: As behind a proxy that several services share.
PATH = "/team/airflow"
USER = "ada"
#: What the tasks of `training_tab` come to; those that are not here wait.
STATES = {
    "running": "running",
    "queued": "scheduled",
    "retried": "success",
    "mapped[0]": "success",
    "mapped[1]": "failed",
    "mapped[2]": "failed",
    "mapped[3]": "running",
    "with_200_replicas": "running",
    "of_another_operator": "success",
}
#: Airflow's frame has both, and its pages cannot do without.
EXPECTED = "An iframe which has both allow-scripts and allow-same-origin"


@dataclass(frozen=True)
class Runs:
    """The runs whose tasks the tests look at.

    :param tab: of `training_tab`.
    :param followed: of `training_followed`, whose task is deferred, and has succeeded in an earlier run.
    """

    tab: str
    followed: str


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowUnderTest]:
    """An Airflow with a user, who has to log in."""
    folder = tmp_path_factory.mktemp("tab")
    core = {"parallelism": "12", **user_settings(folder, {USER: "admin"})}
    with AirflowUnderTest(folder / "home", [HERE / "dags"], config={"core": core}, path=PATH) as instance:
        log_in(instance._client, USER)
        yield instance
        # The jobs would take as long as they may.
        instance.stop(grace=1)


@pytest.fixture(scope="session")
def runs(airflow: AirflowUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All tasks in the states in which they stay."""
    folder = tmp_path_factory.mktemp("jobs")
    for name in ("ended", "followed", "tab", "tab/at_once"):
        (folder / name).mkdir()
    (folder / "tab" / "at_once" / "go").touch()
    airflow.request("POST", "/pools", json={"name": "without_slots", "slots": 0})
    ended = airflow.trigger_dag("training_followed", {"folder": str(folder / "ended")})
    tab = airflow.trigger_dag("training_tab", {"folder": str(folder / "tab")})
    airflow.wait_for_task("training_followed", ended, "deferred", "deferred")
    airflow.wait_for_task("training_tab", tab, "mapped", "success", map_index=0)
    # Not sooner: Airflow 3.1 fails a task whose trigger fires while its process is about to end.
    (folder / "ended" / "go").touch()
    assert airflow.wait_for_run("training_followed", ended) == "success"
    followed = airflow.trigger_dag("training_followed", {"folder": str(folder / "followed")})
    for name, state in STATES.items():
        task, _, index = name.rstrip("]").partition("[")
        airflow.wait_for_task("training_tab", tab, task, state, map_index=int(index or -1))
    airflow.wait_for_task("training_followed", followed, "deferred", "deferred")
    return Runs(tab, followed)


@pytest.fixture(scope="session")
def context(_page: Page, airflow: AirflowUnderTest) -> Iterator[BrowserContext]:
    """A browser in which the user has logged in, with Airflow's own form."""
    assert _page.context.browser is not None
    context = _page.context.browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme="light", reduced_motion="reduce", timezone_id="UTC"
    )
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    page.goto(f"{airflow.url}/")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(USER)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Dags", exact=True)).to_be_visible()
    page.close()
    yield context
    context.close()


def watch(page: Page) -> list[str]:
    """What goes wrong on a page from now on: in its scripts, its content security policy, and its requests."""
    errors: list[str] = []

    def note_message(message) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            errors.append(message.text)

    def note_refusal(response) -> None:
        if response.status >= 400:
            errors.append(f"{response.status} {response.url}")

    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", note_message)
    page.on("response", note_refusal)
    return errors


@pytest.fixture(scope="session")
def _watched(context: BrowserContext) -> Iterator[tuple[Page, list[str]]]:
    page = context.new_page()
    yield page, watch(page)
    page.close()


@pytest.fixture
def errors(_watched: tuple[Page, list[str]]) -> Iterator[list[str]]:
    """What went wrong on the page; by the end of the test, nothing."""
    errors = _watched[1]
    errors.clear()
    yield errors
    assert errors == []


@pytest.fixture
def page(_watched: tuple[Page, list[str]], errors: list[str]) -> Page:
    """A page on which nothing may go wrong."""
    return _watched[0]


Open = Callable[..., Frame]


@pytest.fixture
def open_tab(page: Page, airflow: AirflowUnderTest, runs: Runs) -> Open:
    """Open the Training tab of a task by the tabs of Airflow's page, and wait until it is drawn."""
    return lambda task, index=None: training_tab(page, f"{airflow.url}/dags/training_tab/runs/{runs.tab}", task, index)


def training_tab(page: Page, run: str, task: str, index: int | None = None) -> Frame:
    """Open a task's Training tab.

    :param run: the address of the run.
    :param task: the task.
    :param index: of a mapped task.
    :return: Airflow's frame, with the tab drawn.
    """
    page.goto(f"{run}/tasks/{task}" + ("" if index is None else f"/mapped/{index}"))
    page.locator(TRAINING_TAB).click()
    return drawn(page)


def drawn(page: Page) -> Frame:
    """Airflow's frame, once its page is drawn."""
    frame = page.locator("iframe").element_handle().content_frame()
    assert frame is not None
    expect(frame.locator("#view")).not_to_have_attribute("aria-busy", "true")
    expect(frame.locator("#view > *").first).to_be_visible()
    return frame
