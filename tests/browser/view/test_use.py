"""What a reader does with the page: charts, replicas, actions, the keyboard; and how it follows the job."""

# The page writes dashes and signs as such.
# ruff: noqa: RUF001

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import expect

from tests.browser.view.samples import later, succeeded

pytestmark = pytest.mark.browser


def refresh(page):
    """Let the time of one refresh pass."""
    page.clock.run_for(5_100)


@pytest.fixture
def watched(show, page):
    """Open a sample in a browser whose clock the test moves."""
    page.clock.install()

    def open_(name, **choices):
        return show(name, **choices)

    yield open_
    page.clock.resume()


def test_a_refresh_changes_values_in_place(watched, view):
    page = watched("running")
    button = page.get_by_role("button", name="worker-1")
    button.click()
    button.evaluate("element => { element.marked = true; }")
    page.evaluate("scrollTo(0, 120)")

    view.views["running"][0] = later(view.views["running"][0], 5, step=7000)
    refresh(page)

    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "7000")
    expect(page.locator(".large")).to_have_text("35.0 %")
    assert button.evaluate("element => element.marked") is True
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "true")
    assert page.evaluate("scrollY") == 120


def test_an_answer_that_has_not_changed_is_304_and_time_goes_on(watched, view):
    page = watched("running")
    expect(page.locator(".progress > .small")).to_contain_text("1 min 40 s ago")
    view.requests.clear()

    refresh(page)

    expect(page.locator(".progress > .small")).to_contain_text(re.compile("1 min 4[567] s ago"))
    assert [status for _, path, status in view.requests if "/api/" in path] == [304, 304, 304]


def test_a_job_that_has_ended_is_announced_and_not_asked_for_again(watched, view):
    page = watched("running")
    view.views["running"][0] = succeeded()

    refresh(page)

    expect(page.locator("#announce")).to_have_text("Succeeded. eval_loss 1.814, the best of 19 runs.")
    expect(page.locator(".badge")).to_have_text("Succeeded")
    view.requests.clear()
    page.clock.run_for(60_000)
    assert view.requests == []


def test_a_task_that_was_cleared_is_asked_for_again(watched, view):
    page = watched("running")
    view.views["running"][0] = {**succeeded(), "task_state": None}
    refresh(page)
    expect(page.locator(".badge")).to_have_text("Succeeded")

    view.views["running"][0] = {**view.views["no-job"][0]}
    page.clock.run_for(30_100)

    expect(page.locator("#view")).to_contain_text("No job yet: the task has not started.")


def test_without_answers_the_last_state_stays_and_says_since_when(watched, view):
    page = watched("running")
    view.refused["running"] = 503

    refresh(page)

    expect(page.locator(".notice")).to_contain_text("Last known state, from")
    expect(page.locator(".notice")).to_contain_text("Next attempt in 30 s")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "6560")
    expect(page.get_by_role("button", name="Stop")).to_have_attribute("aria-disabled", "true")
    view.refused.clear()
    page.clock.run_for(30_100)
    expect(page.locator(".notice")).to_have_count(0)


#: A browser's own timeouts do not follow the clock of a test.
TIMEOUTS = """() => {
  AbortSignal.timeout = (time) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new DOMException("", "TimeoutError")), time);
    return controller.signal;
  };
}"""


def test_a_connection_that_hangs_is_no_answer(watched):
    page = watched("running")
    page.evaluate(TIMEOUTS)
    page.route("**/api/**", lambda route: None)

    try:
        with page.expect_request("**/api/**"):
            refresh(page)
        page.clock.run_for(20_100)

        expect(page.locator(".notice")).to_contain_text("Airflow does not answer (No answer within 20 s)")
        expect(page.locator(".live.stale")).to_be_visible()
    finally:
        page.unroute("**/api/**")


def test_an_action_says_its_consequences_and_waits_for_the_cluster(watched, view):
    page = watched("running")

    page.get_by_role("button", name="Stop").click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("160 steps since the last checkpoint (step 6,400, 1 min 40 s ago) are lost.")
    expect(dialog).to_contain_text("4 GPUs become free.")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert view.posted == []
    page.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Stop job").click()
    expect(page.get_by_role("button", name="Stopping …")).to_be_visible()
    assert view.posted == [("stop", {"uid": "8f1c7c2e-51d7-4c1e-9f5e-2f5c0a6f9f10"})]
    view.views["running"][0] = view.views["cancelled"][0]
    refresh(page)
    expect(page.locator(".badge")).to_have_text("Cancelled")


def test_an_action_is_for_the_job_that_its_question_named(watched, view):
    page = watched("running")
    page.get_by_role("button", name="Stop").click()
    next_job = {**view.views["running"][0]["job"], "uid": "of-the-next-try"}
    view.views["running"][0] = {**later(view.views["running"][0], 5, step=7000), "job": next_job}

    refresh(page)
    expect(page.get_by_role("progressbar", include_hidden=True)).to_have_attribute("aria-valuenow", "7000")
    page.get_by_role("dialog").get_by_role("button", name="Stop job").click()

    expect(page.get_by_role("button", name="Stopping …")).to_be_visible()
    assert view.posted == [("stop", {"uid": "8f1c7c2e-51d7-4c1e-9f5e-2f5c0a6f9f10"})]


def test_an_action_that_is_refused_shows_why(watched, view):
    page = watched("suspended")
    view.refused["suspended"] = 409
    page.get_by_role("button", name="Resume").click()

    page.get_by_role("button", name="Resume job").click()

    expect(page.locator(".notice").filter(has_text="The action failed: Refused by the test.")).to_be_visible()


def test_choices_are_in_the_address_and_come_back(show):
    page = show("running")
    page.get_by_role("button", name="grad_norm").click()
    page.get_by_role("button", name="Log scale").click()
    page.get_by_role("button", name="Time", exact=True).click()
    page.get_by_role("button", name="Last success").click()

    page.reload()

    for chosen in ("grad_norm", "Log scale", "Time"):
        button = page.get_by_role("button", name=chosen, exact=chosen != "grad_norm")
        expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="Last success")).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".line.previous")).to_have_count(0)


@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_runs_id_is_read_however_airflow_writes_it(page, view, is_encoded):
    run = "manual__2026-11-22T10:00:00+00:00 of 50% <b>"
    written = quote(run, safe="") if is_encoded else run
    page.goto(re.sub("run_id=[^&]*", lambda _: f"run_id={written}", view.page("running")))

    page.get_by_role("button", name="Log scale").click()
    page.reload()

    expect(page.get_by_role("button", name="Log scale")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("progressbar")).to_be_visible()
    asked = {path.split("/")[6] for _, path, _ in view.requests if "/api/tasks/" in path}
    assert {unquote(each) for each in asked} == {run}


def test_the_chart_shows_all_lines_and_the_restart(show):
    page = show("running")

    for tone in ("train", "raw", "eval", "previous", "repeated"):
        expect(page.locator(f".line.{tone}").first).to_be_attached()
    expect(page.locator(".plot .mark")).to_have_text(re.compile("Restart 13:52: worker-1 evicted"))
    expect(page.locator(".plot .note")).to_have_text(re.compile("starts at 4.9.*, above this scale"))
    page.get_by_role("button", name="Log scale").click()
    expect(page.locator(".plot .note")).to_have_count(0)
    page.get_by_role("button", name="Table").click()
    expect(page.locator(".values tbody tr")).to_have_count(211 + 129)
    expect(page.locator(".values tbody tr").first).to_contain_text("6,560")


def test_the_chart_is_read_with_the_keyboard(show):
    page = show("running")
    page.locator(".plot").focus()

    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tip")).to_contain_text("Step 6,560")
    page.keyboard.press("PageUp")
    expect(page.locator(".tip")).to_contain_text("Step 6,360")
    expect(page.locator("#announce")).to_have_text(re.compile(r"Step 6,360: .*train 1\.9\d+"))
    page.keyboard.press("Home")
    expect(page.locator(".tip")).to_contain_text("Step 4,000")


def test_of_200_replicas_any_one_is_found(show):
    page = show("running-200")

    expect(page.locator(".cell")).to_have_count(200)
    expect(page.locator(".row")).to_have_count(4)
    page.get_by_role("button", name="Slowest 10").click()
    expect(page.locator(".row").first).to_contain_text("× median")
    page.get_by_role("button", name="Step time").click()
    assert page.locator(".cell.heat-3").count() > 0
    # A state that is not running keeps its symbol in every colouring.
    expect(page.locator(".cell.queued")).to_have_count(1)
    page.get_by_label("Find a replica").fill("gpu-h100-243")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row")).to_contain_text("worker-142")
    page.get_by_label("Find a replica").fill("")
    page.get_by_role("button", name="All 200").click()
    page.get_by_role("button", name="Show 20 more of 200").click()
    expect(page.locator(".row")).to_have_count(28)


def test_the_strip_is_one_stop_of_the_keyboard(show):
    page = show("running-200")
    page.locator(".cell[tabindex='0']").focus()

    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".cell:focus")).to_have_attribute("aria-label", re.compile("worker-50, ranks 204–207, Running"))
    page.keyboard.press("Enter")

    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row")).to_contain_text("worker-50")
    expect(page.locator(".cell[tabindex='0']")).to_have_count(1)


def test_everything_is_reached_with_the_keyboard(show):
    page = show("failed")
    reached = []

    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent || document.activeElement.ariaLabel || ''"))

    for text in ("Copy", "Log of worker-0", "Show 2 frames", "worker-0", "Log scale", "Time", "Table", "TensorBoard"):
        assert any(text in each for each in reached), text
    page.get_by_role("button", name="worker-0").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="worker-0")).to_have_attribute("aria-expanded", "true")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "2px"


def test_another_try_is_asked_for_by_its_number(show, view):
    page = show("running-200")
    view.requests.clear()

    page.get_by_role("button", name="Try 1").click()

    expect(page.get_by_role("button", name="Try 1")).to_have_attribute("aria-pressed", "true")
    assert "try=1" in page.url
    assert any(path.endswith("/-1?try=1") for _, path, _ in view.requests)


def test_going_back_to_a_try_shows_its_state_now(watched, view):
    page = watched("running-200")
    live = page.locator(".live")
    expect(live).to_have_attribute("title", re.compile("Updated 14:21:0"))
    page.get_by_role("button", name="Try 1").click()
    expect(page.get_by_role("button", name="Try 1")).to_have_attribute("aria-pressed", "true")

    # Nothing but the time has changed.
    view.views["running-200"][0] = later(view.views["running-200"][0], 600)
    page.get_by_role("button", name="Try 2").click()

    expect(live).to_have_attribute("title", re.compile("Updated 14:31:0"))


def test_in_airflows_frame_it_has_its_colours_and_its_links_work(page, view):
    view.views["running"][0]["facts"]["tools"] = [{"name": "TensorBoard", "href": view.page("waiting")}]
    page.goto(view.frame("running"))
    tab = page.frame_locator("iframe")

    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    expect(tab.locator("body")).to_have_css("background-color", "rgb(1, 2, 3)")
    page.evaluate("document.documentElement.className = 'light'")
    expect(tab.locator("html")).to_have_attribute("data-theme", "light")
    # The frame's sandbox forbids new windows to its own links.
    with page.context.expect_page() as opened:
        tab.get_by_role("link", name="TensorBoard").click()
    assert opened.value.url == view.page("waiting")
    opened.value.close()
    tab.get_by_role("button", name="worker-1").click()
    tab.get_by_role("link", name="Log of worker-1").click()
    page.wait_for_function("window.followed === 1")
    assert page.url.endswith("/airflow/dags/running/runs/scheduled__2026-11-21T12%3A00%3A00%2B00%3A00/tasks/train")


def test_where_airflow_has_no_session_its_token_is_sent(show, page, view):
    show("running")
    page.evaluate("localStorage.token = 'secret'")
    view.token = "secret"

    show("running")
    expect(page.get_by_role("progressbar")).to_be_visible()
    view.token = "another"
    show("running")

    expect(page.locator("#view")).to_contain_text("Not logged in")


def test_who_may_no_longer_read_the_job_does_not_see_it(watched, view):
    page = watched("running")
    view.refused["running"] = 403

    refresh(page)

    expect(page.locator("#view")).to_contain_text("No access to this job")
    expect(page.get_by_role("progressbar")).to_have_count(0)


def test_forced_colours_keep_bars_and_cells(show, page):
    page.emulate_media(forced_colors="active")

    show("running-200")

    assert page.locator(".cell").first.evaluate("each => getComputedStyle(each).forcedColorAdjust") == "none"


#: Picture -> sample, height and theme.
PICTURES = {
    "training_running": ("running", 960, "light"),
    "training_failed": ("failed", 760, "light"),
    "training_waiting": ("waiting", 660, "light"),
    "training_200": ("running-200", 1220, "dark"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_use_view_are_current(show, page, picture, name):
    sample, height, theme = PICTURES[name]
    page.set_viewport_size({"width": 985, "height": height})
    page.emulate_media(color_scheme=theme)

    show(sample)

    expect(page.locator("#view")).to_contain_text("Facts")
    picture(name)


def test_a_metric_without_a_curve_says_why(show, page):
    part = {"attempt": 0, "step": [], "at": [], "value": []}
    series = {"metric": "loss", "unit": None, "better": "lower", "train": [part], "eval": [], "previous": []}
    page.route("**/series?*", lambda route: route.fulfill(json=series))

    show("running")

    expect(page.locator("#chart")).to_contain_text("The script reported no value of this metric while it ran")
    page.unroute("**/series?*")
