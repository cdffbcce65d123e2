"""The Training tab of a DAG: what it says of its runs, in both themes and at both widths."""

# The page writes dashes and minus signs as such.
# ruff: noqa: RUF001

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.checks import overflows, serious_faults
from tests.browser.view.dag.samples import MARKUP, RECORDS

pytestmark = pytest.mark.browser

#: Sample -> texts that a reader looks for.
SAYS = {
    "dag-runs": [
        "19 Nov, best of 15 successes",
        "20 Nov, +0.8 % vs. champion",
        "3 failed, 1 cancelled of 19",
        "3 h 58 min",
    ],
    "dag-hundred": ["21 Nov 14:21", "Show 80 more", "of 99"],
    "dag-mapped": ["20 Nov [lr=0.3], best of 4 successes", "accuracy, higher is better", "−10.0 % vs. champion"],
    "dag-no-metric": ["no run reported a metric", "75 %", "there are no curves", "1 failed of 4"],
    "dag-no-direction": ["The name temperature does not say which value is better", "3 succeeded of 3"],
    "dag-one": ["20 Nov, the champion", "100 %"],
    "dag-first": ["no run has ended", "Running", "Live"],
    "dag-no-runs": ["No training run yet", "Each run of the task train appears here"],
    "dag-no-task": ["No training task", "No task of this DAG is one of the trainer provider's operators."],
    "dag-markup": [MARKUP, f"ValueError: {MARKUP}"[:60]],
}


def test_each_sample_is_looked_at():
    assert set(SAYS) == set(RECORDS)


@pytest.mark.parametrize("name", SAYS)
def test_the_page_shows_the_runs_states_and_fits(show, name):
    page = show(name, limit="100" if name == "dag-hundred" else "20")

    for text in SAYS[name]:
        expect(page.locator("#view")).to_contain_text(text)
    for width in (390, 985):
        page.set_viewport_size({"width": width, "height": 800})
        # The charts follow the new width in a later frame.
        assert overflows(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Narrow, the table is a list.
        scroll = page.evaluate("document.querySelector('.runs-scroll')?.scrollWidth ?? 0")
        assert width > 390 or scroll <= width


def test_the_panels_show_every_run_on_one_axis(show):
    page = show("dag-runs")

    expect(page.locator(".column")).to_have_count(20)
    expect(page.locator(".outcome")).to_have_count(20)
    expect(page.locator(".outcome.st-failed")).to_have_count(3)
    expect(page.locator(".outcome.st-running .icon")).to_have_count(1)
    # Runs without a value have an outcome and a bar, and no point.
    expect(page.locator(".point")).to_have_count(15)
    expect(page.locator(".best")).to_have_count(1)
    expect(page.locator(".ring-label")).to_have_text("champion 1.832")
    for kind in ("queued", "starting", "training", "repeated steps"):
        expect(page.locator(".legend").first).to_contain_text(kind)
    places = page.evaluate("[...document.querySelectorAll('.column')].map((each) => each.getBoundingClientRect().x)")
    assert places == sorted(places)


def test_the_table_names_what_changed(show):
    page = show("dag-runs")

    rows = page.locator("tbody tr")
    expect(rows).to_have_count(20)
    expect(rows.nth(2)).to_contain_text("champion")
    expect(rows.nth(2)).to_contain_text("dropout 0.1 to  → 0.05")
    expect(rows.nth(4)).to_contain_text("image …2.8.0 to  → …2.8.1")
    expect(rows.nth(4)).to_contain_text("2 tries")
    expect(rows.nth(4)).to_contain_text("ValueError: loss is NaN at step 900")
    expect(rows.nth(6)).to_contain_text("none")
    rows.nth(7).get_by_role("button", name="2 more").click()
    expect(rows.nth(7).locator(".change")).to_have_count(4)
    expect(rows.nth(7).get_by_role("button", name="Less")).to_have_attribute("aria-expanded", "true")


def test_markup_in_names_is_shown_as_text(show):
    page = show("dag-markup")

    expect(page.locator(".change").first).to_be_visible()
    page.get_by_role("button", name="3 more").click()
    expect(page.locator(".changes").first).to_contain_text(MARKUP)
    page.locator("#runs-chart .plot").hover()
    expect(page.locator("#runs-tip")).to_contain_text(MARKUP)
    page.locator("#plot-area").hover()
    expect(page.locator("#chart-overlay")).to_contain_text(MARKUP)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#view img, #view script").count() == 0


@pytest.mark.parametrize(
    ("status", "text"),
    [(401, "Not logged in"), (403, "No access to this DAG"), (404, "Not found"), (500, "Airflow does not answer")],
)
def test_a_refusal_of_the_runs_says_why(show, view, status, text):
    view.refused["dag-runs"] = status

    page = show("dag-runs")

    expect(page.locator("h2")).to_have_text(text)


def test_while_it_loads_the_layout_is_there(page, view):
    page.route("**/api/dags/**", lambda route: None)
    try:
        page.goto(view.page("dag-runs"))

        expect(page.locator("#view")).to_have_attribute("aria-busy", "true")
        expect(page.locator(".skeleton")).to_have_count(8)
    finally:
        page.unroute("**/api/dags/**")


@pytest.mark.parametrize("name", ["dag-runs", "dag-no-metric", "dag-no-runs"])
def test_axe_finds_no_serious_fault_in_the_runs(show, page, axe, name):
    show(name)
    found = serious_faults(page, axe)
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    found += serious_faults(page, axe, ["color-contrast"])
    page.set_viewport_size({"width": 390, "height": 800})
    found += serious_faults(page, axe)

    assert found == []
