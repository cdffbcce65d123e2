"""What someone sees of the demo's run in Airflow's UI."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.checks import TRAINING_TAB

pytestmark = pytest.mark.browser

REPLICAS = ("master-0", "worker-0", "worker-1")


def test_the_grid_shows_each_task_of_the_run(run, page, picture):
    page.goto(run.page)

    for task in ("prepare", "train", "evaluate", "gate"):
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=task, exact=True))
        expect(row).to_contain_text("Success")
    expect(page.get_by_role("row").filter(has_text="train")).to_contain_text("XGBoostJobOperator")
    picture("grid")


def test_the_log_has_lines_of_every_replica(run, page, picture):
    page.goto(run.task("train"))

    for rank, replica in enumerate(REPLICAS):
        line = f"[{replica}] rank {rank} of {len(REPLICAS)} trains on"
        expect(page.get_by_text(line)).to_be_visible()
    expect(page.get_by_text("[master-0]").filter(has_text="train-logloss").last).to_be_visible()
    picture("log")


def test_the_rendered_job_is_among_the_templates(run, page, picture):
    page.goto(run.task("train", "/rendered_templates"))

    row = page.get_by_role("row").filter(has_text="rendered_job")
    expect(row).to_contain_text("framework: xgboost")
    for replica in REPLICAS:
        expect(row).to_contain_text(f"name: {replica}")
    expect(row).to_contain_text("xgboost_train.py --folder")
    row.evaluate("row => row.scrollIntoView()")
    picture("rendered_job")


def test_xcom_has_the_handle_and_the_result(run, page, picture):
    page.goto(run.task("train", "/xcom"))
    page.get_by_role("button", name="Expand all").click()

    handle = page.get_by_role("row").filter(has_text='"leader"')
    expect(handle).to_contain_text("job")
    expect(handle).to_contain_text('"leader": "master-0"')
    result = page.get_by_role("row").filter(has_text="return_value")
    expect(result).to_contain_text('"phase": "succeeded"')
    picture("xcom")
    result.evaluate("row => row.scrollIntoView()")
    viewer = result.get_by_role("code")
    for text in ('"train_auc"', '"result": {', '"group": "master"', '"exit_code": 0', '"group": "worker"'):
        scroll_to(page, viewer, text)
    picture("xcom_result")


def test_the_training_tab_draws_what_xgboost_has_printed(run, page, picture):
    # The whole chart.
    page.set_viewport_size({"width": 1280, "height": 980})
    page.goto(run.task("train"))
    page.locator(TRAINING_TAB).click()

    tab = page.frame_locator("iframe")
    expect(tab.locator(".badge")).to_have_text("Succeeded")
    expect(tab.locator("#view")).to_contain_text("All 3 replicas completed")
    expect(tab.locator(".chip-name")).to_have_text(["train_logloss", "train_auc"])
    expect(tab.locator(".line.train").first).to_be_visible()
    picture("training_demo")
    page.set_viewport_size({"width": 1280, "height": 800})


def scroll_to(page, viewer, text):
    """Scroll a viewer of long values, which writes only the lines that are in sight."""
    viewer.hover()
    for _ in range(200):
        if text in viewer.inner_text().replace("\xa0", " "):
            return
        page.mouse.wheel(0, 60)
        page.wait_for_timeout(100)
    raise AssertionError(f"no {text} in:\n{viewer.inner_text()}")
