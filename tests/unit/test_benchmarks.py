"""What the benchmarks write for people."""

from __future__ import annotations

import json

import pytest

from benchmarks import report
from benchmarks.waiting import Figures, _bounds


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "FOLDER", tmp_path / "performance")
    report.forget()
    yield tmp_path / "performance"
    report.forget()


def test_a_page_holds_what_was_said(folder, capsys):
    report.heading("Waiting")
    report.table(("jobs", "ms"), [("1", "2.0"), ("1,000", "3")])
    report.verdict("at most 3 ms: 3 ms", True)
    report.verdict("at most 2 ms: 3 ms", False)
    report.raw({"ms": [2, 3]})
    report.save("waiting")

    page = (folder / "waiting.txt").read_text()
    assert "## Waiting" in page
    assert "| jobs | ms |\n| --- | --- |\n| 1 | 2.0 |\n| 1,000 | 3 |\n\n- held: at most 3 ms: 3 ms" in page
    assert page.endswith("- **missed**: at most 2 ms: 3 ms\n")
    assert json.loads((folder / "waiting.json").read_text()) == {"ms": [2, 3]}
    assert "MISSED  at most 2 ms" in capsys.readouterr().out

    report.save("next")
    assert (folder / "next.txt").read_text() == "\n"


@pytest.mark.parametrize(("percent", "value"), [(50, 51), (99, 100), (0, 1)])
def test_a_percentile_is_the_value_below_which_so_many_are(percent, value):
    assert report.percentile(list(range(100, 0, -1)), percent) == value
    assert report.percentile([], percent) == 0


def test_every_bound_is_judged():
    def figures(contender, count, **others):
        return Figures(contender, count, attached=count, latency=(10.0, 20.0), ended=9, reported=9, **others)

    found = [
        figures("ours", 100, requests=2),
        figures("ours", 1000, requests=2, cpu=0.1, kib=10, recovery=(200.0, 1400.0), behind=0.4),
        figures("pod trigger", 1000, requests=30_000, cpu=60, recovery=(1300.0, 1500.0)),
        figures("job trigger", 1000, requests=6_000, cpu=20),
        figures("watch", 1000),
        figures("ours", 5000, requests=2, attach_seconds=3),
    ]
    assert all(held for _, held in _bounds(found))
    assert len(_bounds(found)) == 12

    found[1].latency, found[1].recovery, found[-1].reported = None, (200.0, 1600.0), 8
    found[1].behind = 0.6
    missed = [text for text, held in _bounds(found) if not held]
    assert len(missed) == 5
    assert "the pod trigger's 1.50 s after one: 1.60 s" in missed[2]
    assert "8 of 9" in missed[-1]
