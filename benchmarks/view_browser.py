"""How long a browser takes to draw the page of all jobs, from the server's answer to the drawn rows."""

from __future__ import annotations

import shutil

from playwright.sync_api import sync_playwright

from benchmarks.report import percentile, table, verdict
from tests.browser.conftest import CHROMIUM
from tests.browser.view.jobs.samples import records
from tests.browser.view.server import serve

MOST_MS = 1000.0
#: Notes when the first frame with rows is drawn.
_NOTE_DRAWN = """
new MutationObserver(() => {
  const root = document.documentElement;
  if (!root || root.dataset.drawing || !document.querySelector("#view:not([aria-busy]) tbody tr")) return;
  root.dataset.drawing = "yes";
  requestAnimationFrame(() => setTimeout(() => { root.dataset.drawn = performance.now(); }));
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
_TOOK = """() => {
  const [answer] = performance.getEntriesByType("resource").filter((each) => each.name.includes("/api/jobs"));
  const rows = document.querySelectorAll("#view tbody tr").length;
  return [document.documentElement.dataset.drawn - answer.responseEnd, rows];
}"""


def drawn(jobs: int, turns: int) -> bool:
    """Print what a page of so many jobs takes in chromium.

    :param jobs: in all; the page shows the first 50 of them.
    :param turns: how often it is opened.
    :return: whether the bound was held.
    """
    took = []
    with serve() as view, sync_playwright() as playwright:
        samples = records()
        view.jobs = [samples[at % len(samples)] for at in range(jobs)]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.add_init_script(_NOTE_DRAWN)
        rows = 0
        for _ in range(turns):
            page.goto(f"{view.url}/trainer/jobs?view=all")
            page.wait_for_selector("html[data-drawn]", state="attached")
            milliseconds, rows = page.evaluate(_TOOK)
            took.append(milliseconds)
        browser.close()
    late = percentile(took, 95)
    title = ("a browser, from the answer to the drawn rows", "jobs", "rows", "p50, ms", "p95, ms")
    table(title, [("chromium", f"{jobs:,}", f"{rows:,}", f"{percentile(took, 50):.0f}", f"{late:.0f}")])
    return verdict(f"drawn within {MOST_MS:.0f} ms, p95: {late:.0f}", late <= MOST_MS)
