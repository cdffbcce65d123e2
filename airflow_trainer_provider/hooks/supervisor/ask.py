"""Asks Airflow from a coroutine: in a thread, and one request at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

_T = TypeVar("_T")
#: Held for a request from a thread: Airflow 3.1 mixes up the answers where two threads of a task ask at once.
_one_at_a_time = threading.Lock()
#: A request that takes longer, as one to a slow secrets backend, does not keep others back; seconds.
_WAIT_SECONDS = 2.0
#: How long the end of requests is waited for that were given up; seconds.
_LAST_SECONDS = 60.0
#: The requests that threads make or are about to make: a lock for each, which is released at its end. A signal handler
#: that raises while its thread waits for one leaves nothing behind, where a condition would stay locked for all.
_requests: set[threading.Lock] = set()


async def ask(request: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Make a request to Airflow in a thread: it blocks, and Airflow refuses it in an event loop.

    :param request: one of Airflow's functions, or what calls some of them.
    """

    def answer() -> _T:
        with _counted(), _turn():
            return request(*args, **kwargs)

    # Not in asgiref's own thread, which a forked process does not have, and waits for without end.
    return await sync_to_async(answer, thread_sensitive=False)()


def finish_asking() -> None:
    """Wait, for a bounded time, until no thread makes a request any more.

    One that was given up goes on, and Airflow 3.1 would mix up its answer with those that the task itself asks for.
    """
    give_up_at = time.monotonic() + _LAST_SECONDS
    while requests := tuple(_requests):
        if not requests[0].acquire(timeout=max(0, give_up_at - time.monotonic())):
            return
        requests[0].release()


@contextmanager
def _counted() -> Iterator[None]:
    request = threading.Lock()
    with request:
        _requests.add(request)
        try:
            yield
        finally:
            _requests.remove(request)


@contextmanager
def _turn() -> Iterator[None]:
    is_mine = _one_at_a_time.acquire(timeout=_WAIT_SECONDS)
    try:
        yield
    finally:
        if is_mine:
            _one_at_a_time.release()
