"""The page of all jobs, opened from Airflow's navigation: real jobs are found, sorted and followed to their tabs."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from playwright.sync_api import Frame, expect

from tests.airflow_version import AIRFLOW_V_3_3
from tests.browser.checks import overflows, serious_faults
from tests.browser.training_tab.conftest import drawn

pytestmark = pytest.mark.browser

#: The entry of the navigation.
ENTRY = 'a[href$="/plugin/training-jobs"]'
#: The jobs by DAG, task and index, with their states; None where the order of two jobs is not known, and for the job
#: that another test stops.
JOBS = [
    ("training_followed / deferred", None),
    ("training_followed / deferred", None),
    ("training_tab / mapped[0]", "Succeeded"),
    ("training_tab / mapped[1]", "Failed"),
    ("training_tab / mapped[2]", "Failed"),
    ("training_tab / mapped[3]", None),
    ("training_tab / retried", "Succeeded"),
    ("training_tab / running", "Running"),
    ("training_tab / with_200_replicas", "Running"),
]
#: More presses of the Tab key than Airflow's page and the one in its frame have controls.
MOST_TABS = 80


@pytest.fixture
def jobs(page, airflow, runs) -> Frame:
    """The page, opened with the navigation of Airflow's home page."""
    page.goto(f"{airflow.url}/")
    page.locator(ENTRY).click()
    return drawn(page)


def tasks_of(jobs):
    return jobs.locator("tr.job td.c-task a")


def states_of(jobs):
    return jobs.locator("tr.job td.c-state .badge")


def test_the_navigation_leads_to_the_jobs_of_all_dags_with_their_states(jobs, page, airflow, axe):
    assert page.url.startswith(f"{airflow.url}/plugin/training-jobs")
    assert jobs.url == f"{airflow.url}/trainer/jobs"
    expect(jobs.locator(".title")).to_contain_text("1,600 GPUs in use, 0 requested by waiting jobs")
    jobs.get_by_role("button", name=re.compile("^All")).click()
    jobs.get_by_role("button", name="DAG and task").click()

    expect(tasks_of(jobs)).to_have_text([task for task, _ in JOBS])
    for row, (_, state) in zip(states_of(jobs).all(), JOBS, strict=True):
        if state:
            expect(row).to_have_text(state)
    assert overflows(jobs) == []
    assert serious_faults(jobs, axe) == []


def test_jobs_are_found_by_dag_and_state_sorted_and_lead_to_the_tab(jobs, page, airflow, runs):
    jobs.get_by_role("button", name=re.compile("^All")).click()
    jobs.get_by_label("Search jobs").fill("training_followed")
    expect(tasks_of(jobs)).to_have_text(["training_followed / deferred"] * 2)
    # Each click changes the order: none passes for the one before.
    for column, states in (
        ("Started", ["Succeeded", "Running"]),
        ("State", ["Running", "Succeeded"]),
        ("State", ["Succeeded", "Running"]),
    ):
        jobs.get_by_role("button", name=column, exact=True).click()
        expect(states_of(jobs)).to_have_text(states)

    jobs.get_by_label("State", exact=True).select_option("Running")

    expect(states_of(jobs)).to_have_text(["Running"])
    tasks_of(jobs).click()
    page.wait_for_url(re.compile("/plugin/training$"))
    tab = f"{airflow.url}/dags/training_followed/runs/{runs.followed}/tasks/deferred/plugin/training"
    assert unquote(page.url) == tab
    expect(page.frame_locator("iframe").locator("#view")).to_contain_text("All 2 replicas are training.")


def test_choices_come_back_with_the_address(jobs, page):
    jobs.get_by_label("State", exact=True).select_option("Failed")
    jobs.get_by_role("button", name="Failed 2").click()
    expect(tasks_of(jobs)).to_have_count(2)

    # Before, Airflow's address has not the path and the query of the page in its frame.
    if AIRFLOW_V_3_3:
        page.wait_for_url(re.compile(r"/plugin/training-jobs/.*\?.*view=failed"))
        page.reload()
        jobs = drawn(page)
    else:
        page.goto(jobs.url)
        jobs = page

    expect(states_of(jobs)).to_have_text(["Failed", "Failed"])
    expect(jobs.get_by_label("State", exact=True)).to_have_value("failed")
    jobs.get_by_role("button", name="Clear filters").click()
    expect(jobs.get_by_label("State", exact=True)).to_have_value("")


def test_the_keyboard_alone_opens_the_page_sorts_it_and_opens_a_job(page, airflow, runs):
    page.goto(f"{airflow.url}/")
    expect(page.locator(ENTRY)).to_be_visible()

    press(page, page, ENTRY)
    jobs = drawn(page)
    press(page, jobs, "[data-key=all]")
    press(page, jobs, "th.c-task button")
    expect(tasks_of(jobs)).to_have_text([task for task, _ in JOBS])
    press(page, jobs, "td.c-task a[href*='/tasks/running/']")

    page.wait_for_url(re.compile("/plugin/training$"))
    expect(page.frame_locator("iframe").locator("#view")).to_contain_text("The job is running.")


def press(page, frame, control):
    """Move the focus to a control with the Tab key, and press Enter.

    :param frame: where the control is.
    :param control: its selector.
    """
    for _ in range(MOST_TABS):
        if frame.evaluate("control => document.activeElement.matches(control)", control):
            page.keyboard.press("Enter")
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key does not reach {control}")
