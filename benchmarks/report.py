"""What the benchmarks have to say: in the terminal, and as pages, plots and raw figures for the docs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Where the docs take it from: ``NAME.txt`` is Markdown, and ``NAME.json`` has the raw figures.
FOLDER = Path(__file__).parents[1] / "docs" / "explanation" / "performance"


@dataclass(frozen=True)
class Panel:
    """One plot: lines by their names, each of points. Both axes are logarithmic.

    :param title: what is measured.
    :param lines: name -> points.
    """

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass
class _Page:
    """What one benchmark has said."""

    text: list[str] = field(default_factory=list)
    raw: Any = None
    plots: dict[str, tuple[str, Sequence[Panel]]] = field(default_factory=dict)


_page = _Page()


def heading(title: str) -> None:
    """Say what is measured, and where."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0]
    where = f"Python {platform.python_version()}, {cores} cores, load {load:.1f} at the start"
    print(f"\n{title}\n({where})\n")
    _page.text += [f"## {title}", where + "."]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their columns.

    :param columns: the titles.
    :param rows: one text per column.
    """
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    lines = [columns, ["---"] * len(columns), *rows]
    _page.text.append("\n".join(f"| {' | '.join(line)} |" for line in lines))


def verdict(text: str, held: bool) -> bool:
    """Say whether a bound was held, and hand that on.

    :param text: the bound, and what was measured.
    :param held: whether it was.
    """
    print(f"{'held  ' if held else 'MISSED'}  {text}")
    _page.text.append(f"- {'held' if held else '**missed**'}: {text}")
    return held


def raw(figures: Any) -> None:
    """Keep figures as they were measured.

    :param figures: anything that JSON can hold.
    """
    _page.raw = figures


def plot(name: str, axis: str, panels: Sequence[Panel]) -> None:
    """Have plots drawn.

    :param name: of the picture.
    :param axis: what is on the horizontal axis.
    :param panels: side by side.
    """
    _page.plots[name] = (axis, panels)


def figure(name: str, caption: str) -> None:
    """Show a picture that :func:`plot` draws.

    :param name: its name.
    :param caption: what it shows, for those who do not see it.
    """
    _page.text.append(f"![{caption}](performance/{name}.png)")


def save(name: str) -> None:
    """Write what was said since the last time for the docs.

    :param name: the benchmark's.
    """
    FOLDER.mkdir(exist_ok=True)
    text = "\n\n".join(_page.text).replace("\n\n- ", "\n- ").replace("|\n- ", "|\n\n- ").replace(")\n- ", ")\n\n- ")
    (FOLDER / f"{name}.txt").write_text(text + "\n")
    if _page.raw is not None:
        (FOLDER / f"{name}.json").write_text(json.dumps(_page.raw, indent=1) + "\n")
    for picture, (axis, panels) in _page.plots.items():
        _draw(FOLDER / f"{picture}.png", axis, panels)
    forget()


def forget() -> None:
    """Begin a new page."""
    _page.text, _page.raw, _page.plots = [], None, {}


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so much of them is; 0 of none.

    :param values: in any order.
    :param percent: from 0 to 100.
    """
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)] if ordered else 0.0


def number(value: float) -> str:
    """A number as short as people want it."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def _draw(path: Path, axis: str, panels: Sequence[Panel]) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    shown = {}
    drawn, axes = pyplot.subplots(rows, columns, figsize=(5 * columns, 3.4 * rows), squeeze=False)
    for each, panel in zip(axes.flat, panels, strict=False):
        for name, points in panel.lines.items():
            if points:
                color = f"C{names.index(name)}"
                [shown[name]] = each.plot(*zip(*points, strict=True), marker="o", markersize=3, color=color)
        each.set(title=panel.title, xlabel=axis, xscale="log", yscale="log")
        each.title.set_fontsize(10)
        each.grid(alpha=0.3)
    drawn.legend(shown.values(), shown.keys(), loc="lower center", ncols=5, fontsize=8, frameon=False)
    drawn.tight_layout(rect=(0, 0.04, 1, 1))
    drawn.savefig(path, dpi=80)
    pyplot.close(drawn)
