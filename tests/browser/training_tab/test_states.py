"""The Training tab of each kind of task, in a real Airflow: what it says, and that it is fit to be read."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.checks import overflows, serious_faults
from tests.browser.training_tab.scripts.job import MARKUP
from tools.airflow_runner.api import wait_until

pytestmark = pytest.mark.browser

#: Task and map index -> the badge, and texts that a reader looks for.
SAYS = {
    ("running", None): ("Running", ["The job is running.", "The script reports no metrics.", "no wait in a queue"]),
    ("queued", None): (None, ["No job yet: the task has not started."]),
    ("mapped", 0): ("Succeeded", ["The job completed: loss 0.41.", f"loss of {MARKUP}", f"/models/{MARKUP}"]),
    ("mapped", 1): (
        "Failed",
        ["First failure: master-0, rank 0", "Does not retry", f"ValueError: a batch with {MARKUP}"],
    ),
    ("mapped", 2): ("Failed", ["Exit code 3", f"the last line: {MARKUP}"]),
    ("with_200_replicas", None): ("Running", ["197 of 200 replicas are running.", "GPU hours"]),
    ("of_another_operator", None): (None, ["Not a training task", "This task runs no training."]),
}


@pytest.mark.parametrize(("task", "index"), SAYS)
def test_the_tab_shows_the_tasks_state(open_tab, axe, page, task, index):
    tab = open_tab(task, index)

    badge, texts = SAYS[task, index]
    if badge:
        expect(tab.locator(".badge").first).to_have_text(badge)
    for text in texts:
        expect(tab.locator("#view")).to_contain_text(text)
    # Markup of scripts and logs is text.
    assert tab.locator("#view img, #view script").count() == 0
    assert page.evaluate("window.hacked") is None
    assert overflows(tab) == []
    assert serious_faults(tab, axe) == []


def test_the_log_is_a_click_away(open_tab, page, airflow, runs):
    tab = open_tab("mapped", 1)

    tab.get_by_role("link", name="Log of master-0").click()

    # Airflow's router follows, without a reload.
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.get_by_text(f"[master-0] ValueError: a batch with {MARKUP}")).to_be_visible()
    assert page.url.startswith(f"{airflow.url}/dags/training_tab/runs/")
    assert page.evaluate("window.hacked") is None


def test_each_try_of_a_task_is_shown(open_tab):
    tab = open_tab("retried")
    expect(tab.locator(".badge")).to_have_text("Succeeded")

    tab.get_by_role("button", name="Try 1").click()

    expect(tab.locator("#view")).to_contain_text("Try 1 did not succeed.")
    expect(tab.locator(".badge")).to_have_text("Failed")
    tab.get_by_role("button", name="Try 2").click()
    expect(tab.locator("#view")).to_contain_text("The job completed: loss 0.41.")
    # Its metrics are those of the result alone, which have no curve.
    expect(tab.locator("#chart")).to_have_count(0)


def test_any_of_200_replicas_is_found_and_without_the_cluster_the_page_goes_on(open_tab, page, errors):
    tab = open_tab("with_200_replicas")
    expect(tab.locator(".cell")).to_have_count(200)
    expect(tab.locator(".row")).to_have_count(3)

    tab.get_by_label("Find a replica").fill("gpu-142")
    expect(tab.locator(".row")).to_have_count(1)
    expect(tab.locator(".row")).to_contain_text("worker-142")
    tab.get_by_role("button", name="Suspend").click()
    tab.get_by_role("dialog").get_by_role("button", name="Suspend job").click()

    expect(tab.locator(".notice")).to_contain_text("The action failed: ")
    expect(tab.locator(".notice")).to_contain_text("no_such_connection")
    expect(tab.locator(".live")).to_have_text("Live")
    assert len(errors) == 2, errors  # the answer, and the browser's line on it
    errors.clear()


def test_what_is_not_possible_says_why(open_tab, page):
    tab = open_tab("running")

    suspend = tab.get_by_role("button", name="Suspend")
    expect(suspend).to_have_attribute("aria-disabled", "true")
    expect(suspend).to_have_accessible_name(re.compile("The local backend cannot suspend jobs."))
    suspend.click(force=True)
    expect(tab.get_by_role("dialog")).to_have_count(0)


def test_stop_ends_the_job_and_the_audit_log_has_it(open_tab, airflow, runs):
    tab = open_tab("mapped", 3)
    expect(tab.locator(".badge")).to_have_text("Running")

    tab.get_by_role("button", name="Stop").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("The task fails, and Airflow does not retry it.")
    dialog.get_by_role("button", name="Stop job").click()

    expect(tab.locator(".badge")).to_have_text("Cancelled")
    job = airflow.xcom("training_tab", runs.tab, "mapped", "job", 3)["name"]
    wait_until(lambda: airflow.status_of(job).phase.ended or None, 90, lambda: "the job goes on")
    assert airflow.task_instance("training_tab", runs.tab, "mapped", 3)["state"] == "failed"
    events = airflow.request("GET", "/eventLogs", params={"dag_id": "training_tab", "event": "trainer_stop_job"})
    found = [(each["owner"], each["task_id"], each["map_index"]) for each in events["event_logs"]]
    assert found == [("ada", "mapped", 3)]
