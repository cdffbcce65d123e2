"""What a reader does with the runs of a DAG: choices, pointing, curves, links, the keyboard; how it follows them."""

# The page writes dashes and signs as such.

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.view.dag.samples import AFTER

pytestmark = pytest.mark.browser

NEWEST = "scheduled__2026-11-21T12:00:00+00:00"


def asked(view, part=""):
    """The queries of the requests for a DAG's runs, or for their curves."""
    paths = [urlsplit(path) for _, path, _ in view.requests if "/api/dags/" in path]
    return [parse_qs(path.query) for path in paths if path.path.endswith("/series") is (part == "series")]


def row(page, text):
    return page.locator("tbody tr").filter(has=page.get_by_role("link", name=text, exact=True))


@pytest.fixture
def watched(show, page):
    """Open a sample in a browser whose clock the test moves."""
    page.clock.install()
    yield show
    page.clock.resume()


def test_choices_of_runs_are_in_the_address_and_come_back(show, view):
    page = show("dag-runs")

    page.get_by_label("Metric").select_option("loss")
    expect(page.locator("#view")).to_contain_text("loss, lower is better")
    page.get_by_role("combobox", name="Runs").select_option("50")
    page.get_by_role("button", name="Champion", exact=True).click()
    expect(page.locator("tbody tr").first).to_contain_text("none")
    page.reload()

    expect(page.get_by_label("Metric")).to_have_value("loss")
    expect(page.get_by_role("combobox", name="Runs")).to_have_value("50")
    expect(page.get_by_role("button", name="Champion", exact=True)).to_have_attribute("aria-pressed", "true")
    assert asked(view)[-1] == {"metric": ["loss"], "limit": ["50"]}
    assert parse_qs(urlsplit(page.url).query) == {
        "dag_id": ["dag-runs"],
        "metric": ["loss"],
        "limit": ["50"],
        "changes": ["champion"],
    }


def test_another_task_begins_with_its_own_metric(show, view):
    page = show("dag-runs", metric="loss")

    page.get_by_label("Task").select_option("distill")

    expect(page).to_have_url(re.compile("dag_id=dag-runs&task_id=distill$"))
    expect(page.locator("tbody tr")).to_have_count(20)
    assert asked(view)[-1] == {"task_id": ["distill"], "limit": ["20"]}


def test_a_choice_with_the_keyboard_keeps_the_focus(show):
    page = show("dag-runs")
    for name, chosen, shown in (
        ("Metric", "loss", "loss, lower is better"),
        ("Task", "distill", "eval_loss, lower is better"),
    ):
        box = page.get_by_role("combobox", name=name)
        box.focus()

        page.keyboard.press("ArrowDown")

        expect(page.locator("#view")).to_contain_text(shown)
        expect(box).to_be_focused()
        expect(box).to_have_value(chosen)
    expect(page.get_by_role("combobox", name="Metric")).to_have_value("eval_loss")


def test_while_another_task_loads_nothing_of_the_first_is_shown(show, page, view):
    show("dag-runs")
    view.refused["dag-runs"] = 500

    page.get_by_role("combobox", name="Task").select_option("distill")

    expect(page.locator("#view")).to_contain_text("Airflow does not answer")
    expect(page.locator("tbody tr")).to_have_count(0)
    expect(page.get_by_role("combobox", name="Task")).to_have_value("distill")


def test_pointing_marks_column_and_row_both_ways(show):
    page = show("dag-runs")
    marked = page.locator(".column.on")

    row(page, "19 Nov").hover()
    expect(marked).to_have_count(1)
    expect(marked).to_have_attribute("data-run", "-1,scheduled__2026-11-19T12:00:00+00:00")
    expect(page.locator("#runs-tip")).to_contain_text("19 Nov, succeeded")
    expect(page.locator("#runs-tip")).to_contain_text("1.832")

    page.evaluate("scrollTo(0, 0)")
    box = page.locator(".column").nth(3).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    expect(page.locator("tr.on")).to_contain_text("5 Nov")
    page.locator(".choices").hover()
    expect(page.locator(".on")).to_have_count(0)
    expect(page.locator("#runs-tip")).to_be_empty()


def test_a_click_on_a_column_goes_to_its_row(show):
    page = show("dag-hundred", limit="100")
    expect(page.locator("tbody tr")).to_have_count(20)

    box = page.locator(".column").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 40)

    expect(page.locator("tbody tr")).to_have_count(100)
    expect(page.locator("tbody tr").last.get_by_role("link")).to_be_focused()
    expect(page.locator("tbody tr").last).to_be_in_viewport()


def test_the_runs_are_read_with_the_keyboard(show):
    page = show("dag-runs")
    page.locator("#runs-chart .plot").focus()

    page.keyboard.press("ArrowLeft")
    expect(page.locator("#announce")).to_have_text(re.compile("^21 Nov, running: queued 10 min"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#announce")).to_have_text(
        re.compile("^19 Nov, succeeded: eval_loss 1.832, queued .*GPU hours 1")
    )
    expect(page.locator("tr.on")).to_contain_text("19 Nov")
    page.keyboard.press("Home")
    expect(page.locator("#announce")).to_have_text(re.compile("^2 Nov"))
    page.keyboard.press("PageDown")
    expect(page.locator("tr.on")).to_contain_text("12 Nov")
    page.keyboard.press("Enter")
    expect(row(page, "12 Nov").get_by_role("link")).to_be_focused()


def test_all_of_the_runs_page_is_reached_with_the_keyboard(show):
    page = show("dag-runs")
    reached = []

    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.ariaLabel || document.activeElement.textContent || document.activeElement.id"
            )
        )

    wanted = ("train", "eval_loss", "Last 20", "19 Nov", "Arrow keys read the runs", "loss by step", "Previous run")
    for text in (*wanted, "All runs", "Curve of 21 Nov", "21 Nov"):
        assert any(text in each for each in reached), text
    # The row of what has the focus is marked.
    expect(page.locator("tr.on")).to_have_count(1)


def test_up_to_five_curves_are_distinguished(show, view):
    page = show("dag-runs")
    expect(page.locator(".label")).to_have_text(
        ["21 Nov (running)", "19 Nov (champion)", "20 Nov"], use_inner_text=False
    )
    expect(page.locator("#view")).to_contain_text("loss of the selected runs, up to 5")

    for day in ("18 Nov", "16 Nov"):
        page.get_by_role("button", name=f"Curve of {day}").click()

    expect(page.locator("path.line[class*=run-]")).to_have_count(5)
    dashes = page.locator("path.line[class*=run-]").evaluate_all(
        "all => all.map((each) => getComputedStyle(each).strokeDasharray)"
    )
    assert len(set(dashes)) == 5
    page.get_by_role("button", name="Curve of 15 Nov").click(force=True)
    expect(page.locator("path.line[class*=run-]")).to_have_count(5)
    page.get_by_role("button", name="Curve of 19 Nov").click()
    expect(page.locator("path.line[class*=run-]")).to_have_count(4)
    assert len(asked(view, "series")[-1]["run"]) == 4
    for _ in range(4):
        page.locator(".pick[aria-pressed=true]").first.click()
    expect(page.locator("#view")).to_contain_text("Choose runs in the table below.")


def test_the_curves_are_read_with_the_keyboard(show):
    page = show("dag-runs")
    page.locator("#plot-area").focus()

    page.keyboard.press("End")

    expect(page.locator("#chart-overlay")).to_contain_text("Step 20,000")
    expect(page.locator("#announce")).to_have_text(re.compile(r"Step 20,000: 19 Nov 1\.\d+, 20 Nov 1\.\d+"))


def test_a_run_leads_to_the_tab_of_its_task(page, view):
    page.goto(view.frame("dag-runs"))
    tab = page.frame_locator("iframe")

    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    tab.get_by_role("link", name="21 Nov", exact=True).click()
    page.wait_for_function("window.followed === 1")

    run = "scheduled__2026-11-21T12%3A00%3A00%2B00%3A00"
    assert page.url.endswith(f"/airflow/dags/dag-runs/runs/{run}/tasks/train/plugin/training")


def test_an_instance_of_a_mapped_task_leads_to_its_own_tab(show):
    page = show("dag-mapped")

    link = page.get_by_role("link", name="20 Nov [lr=0.03]").get_attribute("href")

    assert link.endswith("/tasks/train/mapped/2/plugin/training")


def test_a_run_that_has_ended_is_announced_and_the_page_goes_on_gently(watched, view):
    page = watched("dag-runs")
    page.get_by_role("button", name="2 more").click()
    view.requests.clear()

    page.clock.run_for(5_100)
    assert view.requests == []
    with page.expect_response("**/series?*"):
        page.clock.run_for(10_000)
    expect(page.locator(".live")).to_have_text("Live")
    assert [status for _, path, status in view.requests if "/api/" in path] == [304, 304]

    view.dags["dag-runs"] = AFTER
    page.clock.run_for(15_100)
    expect(page.locator("#announce")).to_have_text("21 Nov: Succeeded.")
    expect(page.locator("#view")).to_contain_text("21 Nov, the champion")
    expect(page.locator(".live")).to_have_count(0)
    # What the reader has opened stays open.
    expect(page.get_by_role("button", name="Less")).to_be_visible()
    view.requests.clear()
    page.clock.run_for(29_000)
    assert view.requests == []
    with page.expect_response("**/api/dags/*"):
        page.clock.run_for(2_000)


def test_without_answers_the_last_runs_stay_and_say_since_when(watched, view):
    page = watched("dag-runs")
    view.refused["dag-runs"] = 503

    page.clock.run_for(15_100)

    expect(page.locator(".notice")).to_contain_text("Last known state, from")
    expect(page.locator(".notice")).to_contain_text("Next attempt in 30 s")
    expect(page.locator("tbody tr")).to_have_count(20)
    view.refused["dag-runs"] = 403
    page.clock.run_for(30_100)
    expect(page.locator("#view")).to_contain_text("No access to this DAG")
    expect(page.locator("tbody tr")).to_have_count(0)


def test_the_time_zone_of_the_runs_is_airflows(show, page):
    show("dag-hundred")
    page.evaluate("localStorage.timezone = JSON.stringify('Asia/Tokyo')")

    show("dag-hundred")

    expect(page.get_by_role("link", name="21 Nov 23:21", exact=True)).to_be_visible()


#: Picture -> theme.
PICTURES = {"training_runs": "light", "training_runs_dark": "dark"}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_the_runs(show, page, picture, name):
    page.set_viewport_size({"width": 985, "height": 1240})
    page.emulate_media(color_scheme=PICTURES[name])
    show("dag-runs")

    box = page.locator(".column").nth(12).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)

    expect(page.locator("#runs-tip")).to_contain_text("14 Nov")
    picture(name)
