"""The Training page: what it says, what a reader does with it, and how it follows the jobs."""

# The page writes dashes and signs as such.
# ruff: noqa: RUF001

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.checks import overflows, serious_faults
from tests.browser.view.jobs.samples import job
from tests.browser.view.samples import MARKUP

pytestmark = pytest.mark.browser


@pytest.fixture
def show(page, view):
    """Open the page with some choices, and wait until it is drawn."""

    def open_(width=1216, **choices):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"{view.url}/trainer/jobs?{'&'.join(f'{name}={quote(value)}' for name, value in choices.items())}")
        expect(page.locator("#view")).not_to_have_attribute("aria-busy", "true")
        return page

    return open_


@pytest.fixture
def watched(show, page):
    """Open the page in a browser whose clock the test moves."""
    page.clock.install()
    yield show
    page.clock.resume()


def asked(view):
    """The last request for jobs."""
    return [path for _, path, _ in view.requests if "/api/jobs" in path][-1].partition("?")[2]


def row(page, text):
    return page.locator("tr.job").filter(has_text=text)


#: View -> its title with the count, and what stands in its rows.
SAYS = {
    "active": (
        "Active 57",
        ["fraud_daily / train", "No progress reported", "33 %", "ends 16:41", "Position 3 of 7 in team-nlp"],
    ),
    "attention": (
        "Need attention 19",
        ["worker-3 cannot start: ImagePullBackOff.", "Suspended: by maria.", "worker-5 was evicted"],
    ),
    "waiting": (
        "Waiting 13",
        [
            "starts 14:20–14:50",
            "No node has room for 1 of 2 replicas.",
            "its position and what is missing are not known",
        ],
    ),
    "failed": ("Failed 16", ["ValueError", "41 min"]),
    "all": (
        "All 160",
        ["The job completed: auc 0.8127.", "train[3]", "16 × 8 GPU", "3 × CPU", "Step 182,400", "last known"],
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_each_view_says_what_its_jobs_do_and_fits(show, name):
    page = show(view=name)

    pressed, texts = SAYS[name]
    expect(page.locator(".views [aria-pressed=true]")).to_have_text(pressed)
    expect(page.locator(".title")).to_contain_text("1,630 GPUs in use, 1,220 requested by waiting jobs")
    for text in texts:
        expect(page.locator("table.jobs")).to_contain_text(text)
    for width in (390, 985, 1216):
        page.set_viewport_size({"width": width, "height": 800})
        assert overflows(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_choices_are_asked_of_the_server_and_come_back_with_the_address(show, view):
    page = show()
    page.get_by_role("button", name="All 160").click()
    page.get_by_role("button", name="Duration").click()
    page.get_by_label("Framework", exact=True).select_option("TensorFlow")
    page.get_by_label("Search jobs").fill("ctr")
    expect(page.locator(".pager")).to_contain_text("of 23")
    expect(page.locator("#announce")).to_have_text("23 jobs")

    page.reload()

    expect(page.locator("tr.job")).to_have_count(23)
    assert asked(view) == "view=all&sort=-duration&q=ctr&framework=tensorflow"
    expect(page.get_by_label("Framework", exact=True)).to_have_value("tensorflow")
    expect(page.get_by_label("Search jobs")).to_have_value("ctr")
    expect(page.get_by_role("columnheader", name="Duration")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_label("Search jobs")).to_have_value("")
    expect(page.locator(".pager")).to_contain_text("1–50 of 160")


def test_pages_are_turned_and_a_filter_begins_at_the_first(show, view):
    page = show(view="all")

    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pager")).to_contain_text("51–100 of 160")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pager")).to_contain_text("Page 4 of 4")
    expect(page.get_by_role("button", name="Next")).to_have_attribute("aria-disabled", "true")
    page.get_by_label("Owner").select_option("vision")

    expect(page.locator(".pager")).to_have_text(re.compile("^1–"))
    assert asked(view) == "view=all&owner=vision"


def test_a_filter_by_dag_is_shown_and_removed(show):
    page = show(view="all", dag="climate_ensemble")

    expect(page.locator("tr.job").first).to_contain_text("climate_ensemble")
    page.get_by_role("button", name="DAG climate_ensemble").click()

    expect(page.locator(".pager")).to_contain_text("of 160")


def test_the_menu_is_used_with_the_keyboard(show):
    page = show(q="llm-finetune-00000001-1")
    page.get_by_role("button", name="Actions for llm_finetune train").focus()

    page.keyboard.press("Enter")

    expect(page.get_by_role("menuitem", name="Open the task")).to_be_focused()
    for name in ("Log", "Suspend", "Stop", "Open the task"):
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("menuitem", name=name)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem", name="Stop")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(page.get_by_role("button", name="Actions for llm_finetune train")).to_be_focused()
    page.keyboard.press("Enter")
    page.locator("h1").click()
    expect(page.get_by_role("menu")).to_have_count(0)


@pytest.mark.parametrize(
    ("search", "name", "why"),
    [
        ("fraud-daily-00000009-1", "Suspend", "The local backend cannot suspend jobs."),
        ("ctr-model-00000006-1", "Stop", "You may not edit this task instance."),
        ("llm-finetune-0000000c-1", "Stop", "The job has ended."),
    ],
)
def test_what_is_not_possible_says_why(show, search, name, why):
    page = show(view="all", q=search)
    page.locator(".kebab").click()

    item = page.get_by_role("menuitem", name=name)
    expect(item).to_have_attribute("aria-disabled", "true")
    expect(item).to_contain_text(why)
    item.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_an_action_says_its_consequences_and_waits_for_the_cluster(watched, view):
    page = watched(q="llm-finetune-00000001-1")
    page.locator(".kebab").click()

    page.get_by_role("menuitem", name="Suspend").click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("llm_finetune / train, job llm-finetune-00000001-1")
    expect(dialog).to_contain_text("4 GPUs become free")
    expect(dialog).to_contain_text("continues from step 6,400 and repeats 160 steps")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    assert view.posted == []
    page.locator(".kebab").click()
    page.get_by_role("menuitem", name="Suspend").click()
    dialog.get_by_role("button", name="Suspend job").click()
    page.locator(".kebab").click()
    expect(page.get_by_role("menuitem", name="Suspending …")).to_have_attribute("aria-disabled", "true")
    assert view.posted == [("suspend", {"uid": "uid-1"})]
    (path,) = [path for method, path, _ in view.requests if method == "POST"]
    assert path.endswith("/api/tasks/llm_finetune/scheduled__2026-11-21T12%3A58%3A00%2B00%3A00/train/-1/suspend")
    view.jobs = [job(1, 0, "suspended", 83, 73, queue="team-nlp"), *view.jobs[1:]]
    page.clock.run_for(5_100)
    expect(page.get_by_role("menuitem", name="Resume")).not_to_have_attribute("aria-disabled", "true")


def test_an_action_that_is_refused_shows_why(show, view):
    view.refused["llm_finetune"] = 409
    page = show(q="llm-finetune-00000001-1")
    page.locator(".kebab").click()
    page.get_by_role("menuitem", name="Stop").click()

    page.get_by_role("dialog").get_by_role("button", name="Stop job").click()

    expect(page.locator(".notice")).to_contain_text("llm_finetune / train: the action failed: Refused by the test.")


def test_a_refresh_changes_values_in_place_and_no_row_under_the_pointer(watched, view):
    page = watched()
    first = row(page, "fraud_daily").first
    first.hover()
    first.evaluate("element => { element.marked = true; }")
    newest = job(999, 6, "running", 0.5, 0.4)
    view.jobs = [newest, *view.jobs]

    page.clock.run_for(5_100)

    expect(page.locator("tr.job").first).to_contain_text("fraud_daily")
    expect(page.locator(".views")).to_contain_text("Active 58")
    assert first.evaluate("element => element.marked") is True
    page.mouse.move(5, 5)
    expect(page.locator("tr.job").first).to_contain_text("vision_multi")
    expect(page.locator("tr.job").nth(1)).to_contain_text("fraud_daily")


def test_an_answer_that_has_not_changed_is_304_and_time_goes_on(watched, view):
    page = watched(q="fraud-daily-00000009-1")
    expect(page.locator("td.c-time")).to_have_text("2 min 6 s")
    view.requests.clear()

    page.clock.run_for(5_100)

    expect(page.locator("td.c-time")).to_have_text("2 min 11 s")
    assert [status for _, path, status in view.requests if "/api/" in path] == [304]


def test_without_answers_the_last_state_stays_and_nothing_can_be_done(watched, view):
    page = watched(q="llm-finetune-00000001-1")
    view.refused["jobs"] = 503

    page.clock.run_for(5_100)

    expect(page.locator(".notice")).to_contain_text("Last known state, from 14:21:07.")
    expect(page.locator("tr.job")).to_have_count(1)
    page.locator(".kebab").click()
    expect(page.get_by_role("menuitem", name="Stop")).to_contain_text(
        "Not possible while the last known state is shown."
    )
    view.refused.clear()
    page.clock.run_for(30_100)
    expect(page.locator(".notice")).to_have_count(0)


@pytest.mark.parametrize(
    ("status", "text"), [(401, "Not logged in"), (403, "No access"), (500, "Airflow does not answer")]
)
def test_a_refusal_says_why(show, view, status, text):
    view.refused["jobs"] = status

    expect(show().locator("h2")).to_have_text(text)


def test_without_jobs_the_page_says_how_to_get_one(show, view):
    view.jobs = []
    page = show()
    expect(page.locator("h2")).to_have_text("No training jobs yet")
    expect(page.locator(".code")).to_contain_text("PyTorchJobOperator(")

    view.jobs = [job(1, 2, "succeeded", 503, 500, state="success", ended=160)]
    page = show()
    expect(page.locator("h2")).to_have_text("No job is active")
    expect(page.locator(".empty")).to_contain_text("1 job went on or ended in the last 7 days.")
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("tr.job")).to_have_count(1)


def test_markup_is_shown_as_text(show):
    page = show(view="failed", q="llm-finetune-0000000c-1")

    expect(page.locator("td.c-progress")).to_contain_text(MARKUP[:60])
    assert page.evaluate("window.hacked") is None
    assert page.locator("#view img, #view script").count() == 0


def test_in_airflows_frame_a_row_leads_to_the_tasks_tab(page, view):
    page.goto(f"{view.url}/frame?{quote(f'{view.url}/trainer/jobs?view=waiting', safe='')}")
    frame = page.frame_locator("iframe")
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")

    frame.get_by_role("link", name="llm_finetune / train[3]").click()

    page.wait_for_function("window.followed === 1")
    run = "scheduled__2026-11-21T13%3A36%3A00%2B00%3A00"
    assert page.url.endswith(f"/airflow/dags/llm_finetune/runs/{run}/tasks/train/mapped/3/plugin/training")


def test_airflows_address_has_the_choices_where_it_has_the_page(page, view):
    page.goto(f"{view.url}/frame?{quote(f'{view.url}/trainer/jobs', safe='')}")
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name="Failed").click()
    assert "view=failed" not in page.url

    # As Airflow names a page of its navigation.
    page.evaluate("history.replaceState(null, '', '/airflow/plugin/training-jobs/airflow/trainer/jobs')")
    frame.get_by_role("button", name="Waiting").click()

    page.wait_for_function("location.search === '?view=waiting'")
    assert page.url.endswith("/airflow/plugin/training-jobs/airflow/trainer/jobs?view=waiting")


def test_where_airflow_has_no_session_its_token_is_sent(show, page, view):
    show()
    page.evaluate("localStorage.token = 'secret'")
    view.token = "secret"

    show()

    expect(page.locator("tr.job")).to_have_count(50)


@pytest.mark.parametrize("name", ["active", "all"])
def test_axe_finds_no_serious_fault(show, page, axe, name):
    show(view=name)
    page.locator(".kebab").first.click()
    found = serious_faults(page, axe)
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    found += serious_faults(page, axe, ["color-contrast"])

    assert found == []


def test_fifty_rows_are_drawn_within_a_second(show, page):
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    show(view="all")
    expect(page.locator("tr.job")).to_have_count(50)

    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    assert metrics["ScriptDuration"] + metrics["LayoutDuration"] + metrics["RecalcStyleDuration"] < 1


#: Picture -> choices, width, height and theme.
PICTURES = {
    "training_jobs": ({}, 1216, 800, "light"),
    "training_jobs_attention": ({"view": "attention"}, 1216, 560, "dark"),
    "training_jobs_narrow": ({}, 390, 900, "light"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_jobs_view_are_current(show, page, picture, name):
    choices, width, height, theme = PICTURES[name]
    page.emulate_media(color_scheme=theme)
    show(width, **choices)
    page.set_viewport_size({"width": width, "height": height})

    if name == "training_jobs_attention":
        page.locator(".kebab").nth(1).click()
    picture(name)
