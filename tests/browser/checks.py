"""What has to hold for a page of the views, whatever it shows."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Frame, Page

#: The accessibility checker, by the content of its file.
AXE = "axe-core@4.10.3"
AXE_SHA256 = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"

#: The link to the Training tab on Airflow's page of a task: neither that of the navigation to the page of all jobs, nor
#: those of Airflow's grid, which lead to the same tab of other tasks.
TRAINING_TAB = 'a[href*="/tasks/"][href*="/plugin/training"]:not([id^="grid-"])'

#: The faults that axe finds. Airflow's own badges have less contrast, to match those in the task's header.
_FAULTS = """async (rules) => {
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const found = await axe.run({ exclude: [".badge"] }, options);
  return found.violations.map(({ id, impact, nodes }) => ({ id, impact, html: nodes[0].html }));
}"""

#: What may scroll sideways by itself, and what is only for screen readers.
_OVERFLOWS = """() => {
  const root = document.documentElement;
  const own = ".chips, .trace, .code, .values, .plain, .sr, .lane, .cut, .runs-scroll, svg";
  const found = [...document.querySelectorAll("body *")]
    .filter((each) => !each.closest(own) && each.getBoundingClientRect().right > root.clientWidth + 0.5)
    .map((each) => `${each.tagName}.${each.className}`);
  return root.scrollWidth > root.clientWidth ? [...found, `scrolls to ${root.scrollWidth}`] : found;
}"""


def axe_script(folder: Path) -> str:
    """The script of axe-core: from the cache, or with npm, which is no other part of this project.

    :param folder: an empty one, to unpack it in.
    """
    cached = Path.home() / ".cache" / "airflow-trainer-provider" / "axe" / f"{AXE_SHA256}.js"
    if not cached.is_file():
        npm = shutil.which("npm")
        if npm is None:
            without = pytest.fail if os.environ.get("CI") else pytest.skip
            without("axe-core is fetched with npm")
        subprocess.run([npm, "pack", AXE, "--silent"], cwd=folder, check=True, capture_output=True, timeout=120)
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            content = script.read()
        assert hashlib.sha256(content).hexdigest() == AXE_SHA256
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.write_bytes(content)
    return cached.read_text()


def serious_faults(page: Page | Frame, axe: str, rules: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """What keeps people from using a page, as far as axe finds it.

    :param page: the page.
    :param axe: its script.
    :param rules: those that are to be checked; None for all.
    """
    page.evaluate(axe)
    found: list[dict[str, Any]] = page.evaluate(_FAULTS, rules)
    return [each for each in found if each["impact"] in ("serious", "critical")]


def overflows(page: Page | Frame, seconds: float = 10) -> list[str]:
    """What stays wider than the page, and would have people scroll sideways.

    :param seconds: in which the page follows a change of its width.
    """
    end = time.monotonic() + seconds
    while True:
        found: list[str] = page.evaluate(_OVERFLOWS)
        if not found or time.monotonic() > end:
            return found
        page.wait_for_timeout(50)
