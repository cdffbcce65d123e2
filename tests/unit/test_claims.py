"""Each claim of README and of the how-tos, and each defect of the real world, names tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.unit.named_tests import ROOT, problem

TEXT = (ROOT / "docs" / "contributing" / "claims.md").read_text()
DEFECTS = (ROOT / "docs" / "contributing" / "real-world.md").read_text()
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs" / "how-to").glob("*.md")))]


def rows():
    """Page, claim and the cell with the tests, of each row."""
    found, page = [], ""
    for line in TEXT.splitlines():
        if line.startswith("## "):
            page = line.removeprefix("## ")
        elif line.startswith("| ") and line != "| Claim | Shown by |":
            claim, tests = (cell.strip() for cell in line.strip("|").split(" | "))
            found.append((page, claim, tests))
    return found


def defects():
    """Number, case, what a user saw, what the provider does now, and the cell with the tests, of each defect."""
    found = [line for line in DEFECTS.splitlines() if re.match(r"\| [AK]\d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found]


def named():
    """The tests of all rows, of both pages."""
    cells = [row[-1] for row in (*rows(), *defects())]
    return sorted({test for cell in cells for test in re.findall(r"`([^`]+)`", cell)})


@pytest.mark.parametrize("node_id", named())
def test_a_test_that_is_named_is_there(node_id):
    assert "::" in node_id, "a claim names a test, and not a whole file"
    assert problem(node_id) is None


def test_each_row_has_a_claim_and_a_test():
    assert [row for row in rows() if not row[1] or not re.search(r"`tests/", row[2])] == []


def test_each_defect_has_a_row_and_first_a_test_on_a_real_cluster_or_airflow():
    assert [row[0] for row in defects()] == [f"K{at}" for at in range(1, 17)] + [f"A{at}" for at in range(1, 11)]
    assert [row for row in defects() if len(row) != 5 or not all(row)] == []
    first = {"K": "`tests/cluster/", "A": ("`tests/airflow/", "`tests/cluster/airflow/")}
    assert [row[0] for row in defects() if not row[-1].startswith(first[row[0][0]])] == []


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_a_row(page):
    assert page in {row[0] for row in rows()}


def test_each_row_belongs_to_a_page():
    assert [row for row in rows() if not (ROOT / row[0]).is_file()] == []


@pytest.mark.parametrize(
    ("node_id", "found"),
    [
        ("tests/unit/test_claims.py::test_each_page_has_a_row", None),
        ("tests/cluster/contract/test_outcome.py::test_no_result_is_no_error", None),
        ("tests/cluster/contract/test_outcome.py::test_no_result_is_no_error[training-operator]", None),
        ("tests/cluster/contract/test_outcome.py::test_no_result_is_no_error[nowhere]", "there is no such case"),
        ("tests/unit/test_claims.py::test_gone", "there is no such test in the file"),
        ("tests/unit/test_gone.py::test_gone", "there is no such file"),
        ("tests/unit/test_claims.py", None),
        ("tests/unit", None),
        ("tests/gone", "there is no such file"),
        ("make test", "it is no name of a test"),
    ],
)
def test_a_name_that_is_wrong_is_noticed(node_id, found):
    assert problem(node_id) == found
