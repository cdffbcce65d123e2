"""The Training tab of a DAG in Airflow's own UI."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tools.airflow_runner.demo import DAG_ID

pytestmark = pytest.mark.browser


def test_a_dag_has_a_tab_whose_runs_lead_to_the_tab_of_their_task(run, airflow, page):
    page.goto(f"{airflow.url}/dags/{DAG_ID}")

    page.locator('a[href*="/plugin/training-runs"]').click()
    runs = page.frame_locator("iframe")
    expect(runs.locator("tbody tr")).to_have_count(1)
    expect(runs.locator("tbody tr")).to_contain_text("Succeeded")
    expect(runs.locator("#runs-chart .outcome")).to_have_count(1)
    runs.locator("tbody tr a").click()

    expect(page).to_have_url(re.compile(f"/dags/{DAG_ID}/runs/.*/tasks/train/plugin/training$"))
    expect(page.frame_locator("iframe").locator(".badge").first).to_have_text("Succeeded")
