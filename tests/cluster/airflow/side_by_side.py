"""The cases of a test side by side: most of their time they wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest


class SideBySide:
    """Runs the cases of tests: when the first case of a test is asked for, all of them begin, a few at a time."""

    def __init__(self) -> None:
        self._pools: list[ThreadPoolExecutor] = []
        self._cases: dict[str, Future[Any]] = {}

    def run(self, body: Callable[..., Any], item: pytest.Function, at_once: int) -> Any:
        """Begin all cases of a test that have been chosen, unless they were, wait for one, and return what it returned.

        :param body: is given the parameters of a case, by their names. It has to keep to what is its own: other cases
            use the same Airflow and the same namespace meanwhile.
        :param item: the case that is waited for. What it raised is raised.
        :param at_once: how many cases go at a time.
        """
        if item.nodeid not in self._cases:
            pool = ThreadPoolExecutor(at_once, thread_name_prefix="case")
            self._pools.append(pool)
            for each in item.session.items:
                if isinstance(each, pytest.Function) and each.function is item.function:
                    self._cases[each.nodeid] = pool.submit(body, **each.callspec.params)
        return self._cases[item.nodeid].result()

    def close(self) -> None:
        """Begin no more cases, and wait for those that have begun."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)
