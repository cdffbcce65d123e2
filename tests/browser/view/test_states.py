"""Each state of a training task: what its page says, in both themes and at both widths."""

# The page writes dashes and minus signs as such.
# ruff: noqa: RUF001

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.checks import overflows, serious_faults
from tests.browser.view.samples import MARKUP, SAMPLES

pytestmark = pytest.mark.browser

#: Sample -> the badge, and texts that a reader looks for.
SAYS = {
    "running": (
        "Running",
        ["All 4 replicas are training.", "32.8 %", "A failure now would repeat 160 steps", "16:33–16:56", "better"],
    ),
    "running-200": ("Running", ["196 of 200 running", "there is no percentage or end", "Not running 4", "worker-42"]),
    "no-progress": ("Running", ["The outlined range is how long the last 5 successful runs took", "trainer_progress"]),
    "starting": ("Starting", ["Starting: 2 of 4 replicas run.", "PodInitializing"]),
    "waiting": (
        "Queued",
        ["2 of 4 GPU", "14:20–14:50", "Queue team-nlp: 7 jobs wait", "2 jobs are ahead of this one, 4"],
    ),
    "waiting-unknown": ("Queued", ["Room for 2 replicas", "Unknown", "do not match the node selector", "14:32"]),
    "failed": ("Failed", ["First failure: worker-0, rank 1", "Exit code 1", "Correct the script.", "Does not retry"]),
    "failed-node-lost": ("Failed", ["No traceback. Last lines of worker-0", "the cluster failed, not the job"]),
    "earlier-try": ("Failed", ["Try 1 did not succeed."]),
    "hang": ("Running", ["Ranks 0, 2 and 3 wait in all_reduce", "Differs from the others", "no step finishes"]),
    "suspended": ("Suspended", ["Suspended by maria at 14:16", "while suspended", "Resuming repeats 160 steps"]),
    "cancelled": ("Cancelled", ["Cancelled by maria at 14:20."]),
    "succeeded": ("Succeeded", ["1.814", "−1.0 % (better)", "Goodput", "s3://models/llm_finetune/final"]),
    "succeeded-no-result": ("Succeeded", ["The result was not kept.", "more than 4095 bytes"]),
    "stale": ("Running", ["Last known state, from 14:09:52.", "The triggerer does not report"]),
    "no-job": (None, ["No job yet: the task has not started."]),
    "not-training": (None, ["Not a training task"]),
    "markup": ("Failed", [MARKUP]),
}


def test_each_sample_is_looked_at():
    assert set(SAYS) == set(SAMPLES)


@pytest.mark.parametrize("name", SAYS)
def test_the_page_says_the_state_first_and_fits(show, name):
    page = show(name)

    badge, texts = SAYS[name]
    if badge:
        expect(page.locator(".badge").first).to_have_text(badge)
    for text in texts:
        expect(page.locator("#view")).to_contain_text(text)
    for width in (190, 390, 985):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("document.getElementById('chart') === null || chart.clientWidth > 0")
        assert overflows(page) == []


def test_the_theme_and_the_time_zone_are_airflows(show, page):
    show("running")
    page.evaluate("localStorage.theme = 'dark'; localStorage.timezone = JSON.stringify('Asia/Tokyo')")

    show("running")

    assert page.locator("html").get_attribute("data-theme") == "dark"
    expect(page.locator("#view")).to_contain_text("22 Nov 01:33–01:56")


def test_markup_is_shown_as_text(show):
    page = show("markup")

    expect(page.locator(".why")).to_have_text(MARKUP)
    expect(page.locator(".trace")).to_contain_text(f"ValueError: {MARKUP}")
    expect(page.locator(".chip-name")).to_have_text(MARKUP)
    page.locator(".rowbutton").nth(1).click()
    expect(page.locator(".detail")).to_contain_text(MARKUP)
    page.locator(".plot").hover()
    expect(page.locator(".tip")).to_contain_text(MARKUP)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#view img, #view script").count() == 0
    # An address that is neither http nor https is no link.
    assert page.locator(".tools a").count() == 1
    assert page.locator(".tools a").get_attribute("href") == "https://mlflow.example/"


@pytest.mark.parametrize(
    ("status", "text"),
    [(401, "Not logged in"), (403, "No access to this job"), (404, "Not found"), (500, "Airflow does not answer")],
)
def test_a_refusal_says_why(show, view, status, text):
    view.refused["running"] = status

    page = show("running")

    expect(page.locator("h2")).to_have_text(text)


def test_frames_of_libraries_are_folded_and_open(show):
    page = show("failed")

    trace = page.locator(".trace")
    expect(trace).not_to_contain_text("inner_training_loop")
    expect(trace.locator(".own").first).to_have_text('  File "/app/metrics.py", line 12, in compute_metrics')
    trace.get_by_role("button", name="Show 2 frames in transformers").click()
    expect(trace).to_contain_text("inner_training_loop")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#announce")).to_have_text("Copied.")
    assert "site-packages/transformers" in page.evaluate("navigator.clipboard.readText()")


def test_the_page_takes_only_its_own_files(show, view):
    show("running")

    assert [path for _, path, status in view.requests if status >= 400] == []
    assert {path.split("?")[0].rsplit("/", 2)[1] for _, path, _ in view.requests} >= {"task", "lib", "css", "chart"}


@pytest.mark.parametrize("name", ["running", "running-200", "failed", "hang", "waiting", "succeeded"])
def test_axe_finds_no_serious_fault(show, page, axe, name):
    show(name)
    found = serious_faults(page, axe)
    # In the other theme only the colours are others.
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    found += serious_faults(page, axe, ["color-contrast"])

    assert found == []
