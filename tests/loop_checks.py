"""What asyncio and aiohttp only log fails the test in which it is logged: exceptions that are never retrieved, and
sessions that are not closed. In a thorough run, so do callbacks that keep the event loop from everything else.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from asyncio import events
from collections.abc import Generator

import pytest

#: Exempts a test where the run is thorough: what debug mode alone finds there is no defect.
MARKER = "loop_errors"
#: Has coroutines in debug mode, callbacks timed, and garbage collected after each file with tests.
THOROUGH = "TRAINER_TEST_LOOPS"
#: Seconds of processor time, so that a busy machine changes nothing.
LONGEST = 0.1
#: Threads of ``asyncio.to_thread``: a loop that one of them runs keeps nothing from others.
_WORKERS = "asyncio_"


class LoopChecks(logging.Handler):
    """Collects what went wrong on the event loops of this process.

    :param thorough: whether garbage is collected after each file with tests, so that what is unreachable is
        found there at the latest.
    """

    def __init__(self, *, thorough: bool) -> None:
        super().__init__(logging.ERROR)
        self._thorough = thorough
        self._found: list[str] = []
        self._collecting = self._collected = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is logged."""
        self._found.append(self.format(record))

    def collects(self, phase: str, _: object) -> None:
        """Note how long garbage is collected. What pytest holds makes that take long; no callback is to blame."""
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collecting

    def run(self, handle: events.Handle) -> None:
        """Run a callback of a loop, and note how long it kept the loop."""
        begun = time.thread_time() - self._collected
        _run(handle)
        took = time.thread_time() - self._collected - begun
        if took > LONGEST and not threading.current_thread().name.startswith(_WORKERS):
            self._found.append(f"{_owner(handle)!r} kept the event loop for {took:.2f} s")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        """Report after the loop of the test is closed."""
        yield
        if self._thorough and (nextitem is None or nextitem.path != item.path):
            gc.collect()
        found, self._found = self._found, []
        if found and not (self._thorough and item.get_closest_marker(MARKER)):
            pytest.fail("\n".join(found), pytrace=False)


def register(config: pytest.Config) -> None:
    """Add the checks to a run of pytest.

    :param config: of the run.
    """
    thorough = THOROUGH in os.environ
    checks, log = LoopChecks(thorough=thorough), logging.getLogger("asyncio")
    log.addHandler(checks)
    config.pluginmanager.register(checks)
    if thorough:
        # Of the loops that the tests have, and of all others.
        config.option.asyncio_debug = True
        os.environ["PYTHONASYNCIODEBUG"] = "1"
        # It measures by the wall clock, and tests compare what is logged.
        log.addFilter(lambda record: not record.msg.startswith("Executing "))
        gc.callbacks.append(checks.collects)

        # A bound method would not be given the handle.
        def run(handle: events.Handle) -> None:
            checks.run(handle)

        events.Handle._run = run  # type: ignore[method-assign]


_run = events.Handle._run


def _owner(handle: events.Handle) -> object:
    """The task of which a callback is a step, or else the callback."""
    return getattr(handle._callback, "__self__", None) or handle
