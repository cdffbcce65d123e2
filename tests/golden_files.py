"""Files that hold what a test expects, whole."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """The text is what the file holds.

    With UPDATE_GOLDEN set, a file that holds something else is written; the test fails all the same.
    """
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") and not (file.exists() and file.read_text() == text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        raise AssertionError(f"{file} is written; read it, and run again without UPDATE_GOLDEN")
    assert text == file.read_text()


def golden_files(folder: str) -> list[Path]:
    """All files in a folder, in order.

    :raises LookupError: when there is none.
    """
    files = sorted((GOLDEN / folder).glob("*.yaml"))
    if not files:
        raise LookupError(f"{GOLDEN / folder} holds no golden file")
    return files
