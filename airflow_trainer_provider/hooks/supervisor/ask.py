"""Sends requests to Airflow from a coroutine: in a thread, and one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

_T = TypeVar("_T")
#: Held during a request: Airflow 3.1 mixes up the answers if two threads of a task send requests at the same time.
_one_at_a_time = threading.Lock()
#: Seconds after which other requests no longer wait for a slow request, such as one to a slow secrets backend.
_WAIT_SECONDS = 2.0
#: How long to wait for the end of requests whose callers were cancelled, in seconds.
_LAST_SECONDS = 60.0
#: The requests that threads send or are about to send: a lock for each, released at the end of the request. If a signal
#: handler raises in a thread that waits for such a lock, no state is left behind. A condition would stay locked.
_requests: set[threading.Lock] = set()


async def ask(request: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Send a request to Airflow in a thread, since requests block, and Airflow refuses them in an event loop.

    :param request: one of Airflow's functions, or a function that calls some of them.
    """

    def answer() -> _T:
        with _counted(), _turn():
            return request(*args, **kwargs)

    # Not in asgiref's own thread: a forked process does not have it, and would wait for it for ever.
    return await sync_to_async(answer, thread_sensitive=False)()


def finish_asking() -> None:
    """Wait, for a bounded time, until no thread sends a request any more.

    A request whose caller was cancelled continues, and Airflow 3.1 would mix up its answer with those to the task's own
    requests.
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
