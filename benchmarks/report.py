"""Tables for people."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence


def heading(title: str) -> None:
    """Say what is measured, and where."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0]
    print(f"\n{title}\n(Python {platform.python_version()}, {cores} cores, load {load:.1f} at the start)\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their columns.

    :param columns: the titles.
    :param rows: one text per column.
    """
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def verdict(text: str, held: bool) -> bool:
    """Say whether a bound was held, and hand that on.

    :param text: the bound, and what was measured.
    :param held: whether it was.
    """
    print(f"{'held  ' if held else 'MISSED'}  {text}")
    return held
