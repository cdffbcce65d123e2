"""The benchmarks that need a cluster work: a small run of each."""

from __future__ import annotations

import asyncio

from benchmarks import submit, waiting
from benchmarks.cluster import bench_namespace


def test_all_contenders_wait(cluster):
    figures = asyncio.run(waiting.measure(waiting.QUICK))

    assert {(each.contender, each.count) for each in figures} == {
        (contender, count) for contender in waiting.CONTENDERS for count in waiting.QUICK.counts
    }
    assert [(each.attached, each.reported, each.wrong) for each in figures] == [
        (each.count, each.ended, 0) for each in figures
    ]
    polling = next(each for each in figures if (each.contender, each.count) == ("poll", 5))
    # A GET for each every two seconds: 150 in a minute.
    assert 75 < polling.requests < 200
    assert polling.cpu > 0


def test_submits_beside_bare_requests(cluster):
    with bench_namespace() as bench:
        pairs = asyncio.run(submit.measure(bench, 10, 1))

    assert len(pairs) == 1
    assert all(rate > 0 for rate in pairs[0])
