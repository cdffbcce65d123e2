"""The benchmarks that need a cluster work: a small run of each."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from benchmarks import submit, waiting
from benchmarks.cluster import bench_namespace

#: Time for a contender that polls each ten seconds, on a busy machine; a window in which the poll asks in any case.
_PLAN = replace(waiting.QUICK, window=4, timeout=40, attach=180)


# It counts the requests of the whole cluster, and the processes that wait need the processors.
@pytest.mark.exclusive
def test_all_contenders_wait(cluster):
    figures = asyncio.run(waiting.measure(_PLAN))

    assert {(each.contender, each.count) for each in figures} == {
        (contender, count) for contender in waiting.CONTENDERS for count in _PLAN.counts
    }
    assert [(each.attached, each.reported, each.wrong) for each in figures] == [
        (each.count, each.ended, 0) for each in figures
    ]
    polling = next(each for each in figures if (each.contender, each.count) == ("poll", 5))
    assert polling.requests > 0
    assert polling.cpu > 0


def test_submits_beside_bare_requests(cluster):
    with bench_namespace() as bench:
        pairs = asyncio.run(submit.measure(bench, 10, 1))

    assert len(pairs) == 1
    assert all(rate > 0 for rate in pairs[0])
