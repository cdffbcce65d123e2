"""``python -m tools.closing_table FOLDER``: the last lines of ``.ci/run`` and ``.ci/all``.

``FOLDER/stages`` has a line for each stage: name, seconds, outcome, and ``tests`` where the stage runs tests, with tabs
between them. ``FOLDER/<name>/`` then holds a JUnit report of each of its runs of pytest, and in ``reruns`` a line for
each test that failed and was run again. Only the standard library is used: the table is printed, too, where the
environment could not be made.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

#: How much of what a test raised is shown.
_MAX_RAISED = 300
_COLUMNS = ("runs", "passed", "failed", "skipped")


@dataclass
class Reports:
    """What the runs of pytest in one stage, or in all, have reported.

    :param failures: a line for each test that failed: its name, and the first line of what it raised.
    :param reruns: a line for each test that failed and was run again.
    :param skipped: how often each reason was given.
    :param problems: why the reports do not show that all tests ran.
    """

    runs: int = 0
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    reruns: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Reports) -> None:
        """Count another's as well."""
        self.runs += other.runs
        self.passed += other.passed
        self.failures += other.failures
        self.reruns += other.reruns
        self.skipped += other.skipped
        self.problems += other.problems

    def cells(self) -> list[str]:
        """The numbers for the table."""
        return [str(number) for number in (self.runs, self.passed, len(self.failures), self.skipped.total())]


def read_reports(folder: Path) -> Reports:
    """Add up the reports of one stage.

    :param folder: where they are.
    """
    reports = Reports()
    for file in sorted(folder.glob("*.xml")):
        reports.runs += 1
        try:
            cases = list(ElementTree.parse(file).iter("testcase"))
        except ElementTree.ParseError:
            reports.problems.append(f"{file.name} is not whole: pytest was killed")
            continue
        if not cases:
            reports.problems.append(f"{file.name} has no test")
        for case in cases:
            _add(case, reports)
    reruns = folder / "reruns"
    if reruns.exists():
        reports.reruns = [line[:_MAX_RAISED] for line in reruns.read_text().splitlines()]
    if not reports.runs:
        reports.problems.append("no report: pytest did not come to its end")
    elif not reports.passed + len(reports.failures):
        reports.problems.append("no test was run")
    return reports


def _add(case: ElementTree.Element, reports: Reports) -> None:
    skipped = case.find("skipped")
    problems = case.findall("failure") + case.findall("error")
    if problems:
        raised = (problems[0].get("message") or "").partition("\n")[0]
        reports.failures.append(f"{case.get('classname')}::{case.get('name')}: {raised[:_MAX_RAISED]}")
    elif skipped is not None:
        reports.skipped[_reason(skipped)] += 1
    else:
        reports.passed += 1


def _reason(skipped: ElementTree.Element) -> str:
    message = skipped.get("message") or ""
    if message == "collection skipped":
        # A module's own skip: its reason is in the text, as the last of a tuple.
        message = (skipped.text or "").rpartition("Skipped: ")[2].rstrip("')")
    reason = message.partition("\n")[0] or "no reason given"
    return f"expected failure: {reason}" if skipped.get("type") == "pytest.xfail" else reason


def closing_table(folder: Path) -> tuple[list[str], bool]:
    """The table's lines, and whether tests have run, and those of each stage are accounted for.

    :param folder: what the run has left.
    """
    rows, total = [["stage", "seconds", *_COLUMNS, "outcome"]], Reports()
    details: dict[str, list[str]] = {}
    for line in (folder / "stages").read_text().splitlines():
        name, seconds, outcome, kind = line.split("\t")
        cells = ["-"] * len(_COLUMNS)
        if kind == "tests":
            reports = read_reports(folder / name)
            if outcome == "ok" and reports.failures:
                reports.problems.append("tests failed, and the stage did not")
            if reports.problems:
                outcome = "; ".join([outcome.replace("ok", "FAILED"), *reports.problems])
            cells = reports.cells()
            details[name] = [f"failed: {failure}" for failure in reports.failures]
            details[name] += [f"run again: {rerun}" for rerun in reports.reruns]
            details[name] += [f"{count} skipped: {reason}" for reason, count in reports.skipped.most_common()]
            total.add(reports)
        rows.append([name, seconds, *cells, outcome])
    rows.append(["all", "", *total.cells(), ""])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for name, *cells, outcome in rows:
        numbers = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *numbers, outcome]).rstrip())
        lines += [f"    {detail}" for detail in details.get(name, ())]
    return lines, total.passed > 0 and not total.problems


def main() -> int:
    """Print the table."""
    lines, good = closing_table(Path(sys.argv[1]))
    print("", *lines, sep="\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
