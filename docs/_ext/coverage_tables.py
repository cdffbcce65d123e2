"""The tables of the coverage page, from ``reference/coverage.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

#: In the order of the documentation's tables.
BACKENDS = ("trainer", "training-operator", "mpi-operator", "native", "local")
#: What a row has instead of fields, and how the page begins it.
INSTEAD = {"how": "", "not_yet": "**Not yet.** ", "not_possible": "**Not possible.** "}


def read(file: Path) -> dict[str, Any]:
    """The documents, by the names of their tables.

    :param file: of the data.
    """
    documents: dict[str, Any] = yaml.safe_load(file.read_text())["documents"]
    return documents


def table(rows: list[Mapping[str, Any]]) -> str:
    """The rows of one document as a table of Markdown.

    :param rows: of the document.
    """
    lines = ["| There | Here | Backends | Shown by |", "|---|---|---|---|"]
    for row in rows:
        tests = "<br>".join(f"`{test.rpartition('::')[2]}`" for test in row.get("tests", ()))
        lines.append(f"| {row['term']} | {_here(row)} | {_backends(row)} | {tests} |")
    return "\n".join(lines)


def _here(row: Mapping[str, Any]) -> str:
    if "fields" in row:
        return "<br>".join(f"`{field}`" for field in row["fields"])
    (name,) = row.keys() & INSTEAD.keys()
    return INSTEAD[name] + str(row[name])


def _backends(row: Mapping[str, Any]) -> str:
    if "fields" not in row:
        return ""
    others: Mapping[str, str] = row.get("except", {})
    if not others:
        return "all"
    whole = ", ".join(f"`{name}`" for name in BACKENDS if name not in others)
    parts = [whole] if whole else []
    for name in BACKENDS:
        if name in others:
            word, _, why = others[name].partition(": ")
            parts.append(f"`{name}`: **{word}**, {why}")
    return "<br>".join(parts)
