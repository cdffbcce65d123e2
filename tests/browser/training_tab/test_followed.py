"""One tab that stays open beside a deferred task: how a person works with it, while it moves by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.checks import TRAINING_TAB, overflows, serious_faults
from tests.browser.training_tab.conftest import training_tab, watch

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def opened(context, airflow, runs) -> Iterator[tuple[Page, Frame, int]]:
    """Airflow's page, the tab in it, and the step that it showed first."""
    page = context.new_page()
    errors = watch(page)
    tab = training_tab(page, f"{airflow.url}/dags/training_followed/runs/{runs.followed}", "deferred")
    bar = tab.get_by_role("progressbar")
    expect(bar).to_be_visible()
    tab.evaluate("window.isTheFirst = true")
    yield page, tab, step_of(tab)
    page.close()
    assert errors == []


def step_of(tab: Frame) -> int:
    return int(tab.get_by_role("progressbar").get_attribute("aria-valuenow") or 0)


@pytest.fixture
def page(opened) -> Page:
    return opened[0]


@pytest.fixture
def tab(opened) -> Frame:
    return opened[1]


def test_it_shows_the_curve_before_the_last_success(tab):
    expect(tab.locator("#view")).to_contain_text("All 2 replicas are training.")
    for name in ("loss", "learning_rate", "accuracy"):
        expect(tab.locator(".chip-name").get_by_text(name, exact=True)).to_be_visible()
    expect(tab.locator(".line.train").first).to_be_attached()
    expect(tab.locator(".line.previous").first).to_be_attached()
    expect(tab.locator(".live")).to_have_text("Live")


def test_airflows_own_switch_changes_its_colours(page, tab, axe):
    background = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(background)

    for name, theme in (("Dark Mode", "dark"), ("Light Mode", "light")):
        page.get_by_role("button", name="User").click()
        page.get_by_role("menuitem", name="Appearance").click()
        page.get_by_role("menuitemradio", name=name).click()
        expect(tab.locator("html")).to_have_attribute("data-theme", theme)
        assert (tab.evaluate(background) == light) is (theme == "light")
        assert tab.evaluate(background) == page.evaluate(background.replace("body", "documentElement"))
        assert serious_faults(tab, axe, ["color-contrast"]) == []
        page.keyboard.press("Escape")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_into_the_width_that_airflow_gives_it(page, tab, width):
    page.set_viewport_size({"width": width, "height": 800})

    expect(tab.locator("#chart svg")).to_be_visible()
    assert overflows(tab) == []


def test_it_fits_a_telephone_where_it_stands_alone(context, tab):
    alone = context.new_page()
    errors = watch(alone)
    alone.set_viewport_size({"width": 390, "height": 800})

    alone.goto(tab.url)

    expect(alone.get_by_role("progressbar")).to_be_visible()
    expect(alone.locator("#chart svg")).to_be_visible()
    assert overflows(alone) == []
    alone.close()
    assert errors == []


def test_the_keyboard_alone_reaches_and_ends_a_dialog(page, tab):
    page.locator(TRAINING_TAB).focus()
    reached = []
    while "Stop" not in reached and len(reached) < 20:
        page.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.textContent.trim()"))

    page.keyboard.press("Enter")
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Stop job")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(tab.get_by_role("button", name="Stop")).to_be_focused()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.textContent.trim() || document.activeElement.ariaLabel"))
    for name in ("Smooth", "Log scale", "Table", "master-0", "worker-0"):
        assert any(name in (each or "") for each in reached), reached
    tab.locator(".plot").focus()
    page.keyboard.press("Home")
    expect(tab.locator("#announce")).to_have_text(re.compile("Step 0: .*loss 2.4"))


def test_it_moves_without_a_reload(opened):
    _, tab, first = opened

    expect(tab.get_by_role("progressbar")).not_to_have_attribute("aria-valuenow", str(first), timeout=120_000)
    assert step_of(tab) > first
    assert tab.evaluate("window.isTheFirst")
