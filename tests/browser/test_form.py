"""The form for a training job in Airflow's trigger dialog."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_form_holds_a_job_to_the_policy_and_trains_it(airflow, page, picture):
    page.goto(f"{airflow.url}/dags/train_from_form")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Model", exact=True).click()
    dialog.get_by_role("spinbutton", name="Rounds").fill("5")
    dialog.get_by_role("button", name="Size", exact=True).click()
    workers = dialog.get_by_role("spinbutton", name="Num workers")

    workers.fill("5")
    workers.blur()

    expect(workers).to_have_value("1")
    expect(dialog.get_by_text("At most 1. The machine of the tests is small.")).to_be_visible()
    picture("form")
    dialog.get_by_test_id("trigger-dag-submit").click()
    expect(dialog).to_be_hidden()
    (run,) = airflow.request("GET", "/dags/train_from_form/dagRuns")["dag_runs"]
    assert airflow.wait_for_run("train_from_form", run["dag_run_id"]) == "success"
    assert (run["conf"]["num_workers"], run["conf"]["rounds"]) == (1, 5)
    assert len(airflow.xcom("train_from_form", run["dag_run_id"], "train")["replicas"]) == 2
