"""The closing table of a run, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.ci.reports import Reports, read_reports

_COLUMNS = ("runs", "passed", "failed", "skipped")


@dataclass(frozen=True)
class Result:
    """How a stage went.

    :param stage: its name.
    :param outcome: ``ok``, or what went wrong, or why it was left out.
    :param seconds: that it took; None: it was not run.
    :param left: the processes that it has left behind.
    :param reports: the folder with the reports of its tests; None: it has none.
    :param expected: the files with tests that it had to collect.
    """

    stage: str
    outcome: str
    seconds: int | None = None
    left: Sequence[str] = ()
    reports: Path | None = None
    expected: Sequence[str] = ()


@dataclass
class Row:
    """A stage in the table.

    :param good: whether it went well, or was left out on purpose.
    """

    stage: str
    seconds: int | None
    outcome: str
    good: bool
    left: list[str]
    tests: Reports | None


@dataclass
class Table:
    """All stages of a run.

    :param total: the tests of all stages.
    :param good: whether each stage went well, and tests were run where stages have tests.
    """

    rows: list[Row] = field(default_factory=list)
    total: Reports = field(default_factory=Reports)
    good: bool = True

    def lines(self) -> list[str]:
        """The table for people."""
        cells = [["stage", "seconds", *_COLUMNS, "outcome"]]
        cells += [
            [row.stage, "-" if row.seconds is None else str(row.seconds), *_numbers(row.tests), row.outcome]
            for row in self.rows
        ]
        seconds = sum(row.seconds or 0 for row in self.rows)
        cells.append(["all", str(seconds), *_numbers(self.total), "passed" if self.good else "FAILED"])
        widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]) - 1)]
        details = [[], *(_details(row) for row in self.rows), []]
        lines = []
        for (name, *numbers, outcome), more in zip(cells, details, strict=True):
            aligned = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *aligned, outcome]).rstrip())
            lines += [f"    {detail}" for detail in more]
        return lines

    def as_json(self) -> dict[str, Any]:
        """The table for programs."""
        return asdict(self)


def make_table(results: Sequence[Result]) -> Table:
    """Add up what the stages of a run have left.

    :param results: of its stages.
    """
    table = Table()
    for result in results:
        row = _row(result)
        table.rows.append(row)
        table.good &= row.good
        if row.tests:
            table.total.add(row.tests)
    table.good &= any(row.outcome == "ok" for row in table.rows)
    table.good &= table.total.passed > 0 or all(result.reports is None for result in results)
    return table


def _row(result: Result) -> Row:
    outcome, tests = result.outcome, None
    if result.reports is not None and result.seconds is not None:
        tests = read_reports(result.reports, result.expected)
        problems = list(tests.problems)
        if outcome == "ok" and tests.failures:
            problems.append("tests failed, and the stage did not")
        if problems:
            outcome = "; ".join(["FAILED" if outcome == "ok" else outcome, *problems])
    return Row(result.stage, result.seconds, outcome, not outcome.startswith("FAILED"), list(result.left), tests)


def _numbers(tests: Reports | None) -> list[str]:
    if tests is None:
        return ["-"] * len(_COLUMNS)
    return [str(number) for number in (tests.runs, tests.passed, len(tests.failures), sum(tests.skipped.values()))]


def _details(row: Row) -> list[str]:
    lines = [f"left behind, and ended: {process}" for process in row.left]
    if row.tests:
        lines += [f"failed: {failure}" for failure in row.tests.failures]
        lines += [f"UNSTEADY: {test}" for test in row.tests.unsteady]
        lines += [f"{count} skipped: {reason}" for reason, count in _most_first(row.tests.skipped)]
    return lines


def _most_first(skipped: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(skipped.items(), key=lambda entry: -entry[1])
