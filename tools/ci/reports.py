"""What the runs of pytest in a stage have reported.

A stage's folder holds a JUnit report of each of its runs, and what tests/second_chance.py writes there: in
``collected`` a line for each file with tests that was found, in ``unsteady`` one for each test that failed and then
passed alone, with the name of the report in which it failed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

#: The name under which a report has a test's node id.
NODE_ID = "nodeid"
COLLECTED = "collected"
UNSTEADY = "unsteady"
#: How much of what a test raised is shown.
_MAX_RAISED = 300


@dataclass
class Reports:
    """What the runs of pytest in one stage, or in all, have reported.

    :param failures: a line for each test that failed: its name, and the first line of what it raised.
    :param unsteady: the same for each test that failed, and passed each time that it was run again alone.
    :param skipped: how often each reason was given.
    :param problems: why the reports do not show that all tests ran.
    """

    runs: int = 0
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Reports) -> None:
        """Count another's as well."""
        self.runs += other.runs
        self.passed += other.passed
        self.failures += other.failures
        self.unsteady += other.unsteady
        for reason, count in other.skipped.items():
            self.skip(reason, count)
        self.problems += other.problems

    def skip(self, reason: str, count: int = 1) -> None:
        """Count tests that were skipped."""
        self.skipped[reason] = self.skipped.get(reason, 0) + count


def read_reports(folder: Path, expected: Sequence[str] = ()) -> Reports:
    """Add up the reports of one stage.

    :param folder: where they are.
    :param expected: files with tests that have to be collected.
    """
    reports, unsteady = Reports(), [json.loads(line) for line in _lines(folder / UNSTEADY)]
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
            _add(case, reports, [test for report, test in unsteady if report == file.name])
    if not reports.runs:
        reports.problems.append("no report: pytest did not come to its end")
    elif not reports.passed + len(reports.failures):
        reports.problems.append("no test was run")
    elif missing := sorted(set(expected) - set(_lines(folder / COLLECTED))):
        reports.problems.append(f"not collected: {', '.join(missing)}")
    return reports


def passed_tests(folder: Path) -> set[str]:
    """The names of the tests that passed; none where a run of pytest did not come to its end.

    :param folder: with the reports.
    """
    passed, others = set[str](), set[str]()
    for file in folder.glob("*.xml"):
        try:
            cases = list(ElementTree.parse(file).iter("testcase"))
        except ElementTree.ParseError:
            return set()
        for case in cases:
            has_passed = all(case.find(tag) is None for tag in ("failure", "error", "skipped"))
            (passed if has_passed else others).add(_name_of(case))
    return passed - others


def _name_of(case: ElementTree.Element) -> str:
    """The node id of a test in a report, or its name where the report has none."""
    for entry in case.iter("property"):
        if entry.get("name") == NODE_ID:
            return entry.get("value") or ""
    return f"{case.get('classname')}::{case.get('name')}"


def _add(case: ElementTree.Element, reports: Reports, unsteady: Sequence[str]) -> None:
    skipped = case.find("skipped")
    problems = case.findall("failure") + case.findall("error")
    if problems:
        name, raised = _name_of(case), (problems[0].get("message") or "").partition("\n")[0]
        (reports.unsteady if name in unsteady else reports.failures).append(f"{name}: {raised[:_MAX_RAISED]}")
        # It has passed when it was run again.
        reports.passed += name in unsteady
    elif skipped is not None:
        reports.skip(_reason(skipped))
    else:
        reports.passed += 1


def _reason(skipped: ElementTree.Element) -> str:
    message = skipped.get("message") or ""
    if message == "collection skipped":
        # A module's own skip: its reason is in the text, as the last of a tuple.
        message = (skipped.text or "").rpartition("Skipped: ")[2].rstrip("')")
    reason = message.partition("\n")[0] or "no reason given"
    return f"expected failure: {reason}" if skipped.get("type") == "pytest.xfail" else reason


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
