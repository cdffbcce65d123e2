"""A browser that looks at the pages of the views, served with sample answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TIMEOUT
from tests.browser.view.server import ViewServer, serve

#: A browser reports each refused request itself, and what it thinks of Airflow's frame.
EXPECTED = ("Failed to load resource", "An iframe which has both allow-scripts and allow-same-origin")


@pytest.fixture(scope="session")
def _view() -> Iterator[ViewServer]:
    with serve() as view:
        yield view


@pytest.fixture
def view(_view: ViewServer) -> ViewServer:
    """The server, with the samples as they are."""
    _view.reset()
    return _view


@pytest.fixture(scope="session")
def _own_page(_page: Page) -> Iterator[Page]:
    browser = _page.context.browser
    assert browser is not None
    # A context of its own: what these tests keep in the browser's storage is not Airflow's.
    context = browser.new_context(
        viewport={"width": 985, "height": 800}, color_scheme="light", reduced_motion="reduce", timezone_id="UTC"
    )
    # Buttons that copy write to it.
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    yield page
    context.close()


@pytest.fixture
def page(_own_page: Page) -> Iterator[Page]:
    """A page whose scripts must not fail, and which breaks no rule of its content security policy."""
    errors: list[str] = []

    def note_console(message) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            errors.append(message.text)

    def note_error(error) -> None:
        errors.append(str(error))

    _own_page.on("console", note_console)
    _own_page.on("pageerror", note_error)
    yield _own_page
    _own_page.remove_listener("console", note_console)
    _own_page.remove_listener("pageerror", note_error)
    _own_page.set_viewport_size({"width": 985, "height": 800})
    _own_page.emulate_media(color_scheme="light", forced_colors="none")
    _own_page.evaluate("localStorage.clear()")
    assert errors == []


@pytest.fixture
def show(page: Page, view: ViewServer) -> Callable[..., Page]:
    """Open a sample's page, and wait until it is drawn."""

    def open_(name: str, **choices: str) -> Page:
        page.goto(view.page(name, **choices))
        expect(page.locator("#view")).not_to_have_attribute("aria-busy", "true")
        return page

    return open_
