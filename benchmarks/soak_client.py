"""One process that waits for jobs that come and go: ``python -m benchmarks.soak_client STARTUP_TIMEOUT``.

It reads lines of JSON: ``{"wait": {NAME: HANDLE}}`` has it wait for more jobs, and a question is a text. It answers
each with a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.waiting_client import Ours, _questions, _resident


class Waiting(Ours):
    """Waits for the jobs that it is given, and keeps all that their triggers say until it is asked for.

    :param startup_timeout: of the triggers; seconds.
    """

    def __init__(self, startup_timeout: float | None) -> None:
        super().__init__({"handles": {}, "startup_timeout": startup_timeout})
        self._news: list[tuple[str, float, dict[str, Any]]] = []
        self._waits: set[asyncio.Task[None]] = set()

    def wait_for(self, handles: dict[str, dict[str, Any]]) -> int:
        """Wait for more jobs.

        :param handles: the jobs' handles by their names.
        :return: how many are waited for now.
        """
        self.wanted["handles"] = handles
        # A trigger takes its handle out.
        for name in list(handles):
            task = asyncio.create_task(self._run(name, self._trigger(name)))
            self._waits.add(task)
            task.add_done_callback(self._waits.discard)
        return len(self._waits)

    def news(self) -> list[tuple[str, float, dict[str, Any]]]:
        """What the triggers have said since the last time: whose it is, when, and the event's payload."""
        news, self._news = self._news, []
        return news

    async def _run(self, name: str, trigger: Any) -> None:
        try:
            async for event in trigger.run():
                self._news.append((name, time.monotonic(), event.payload))
        except Exception as error:
            self._news.append((name, time.monotonic(), {"end": "crashed", "message": repr(error)}))
        finally:
            self.attached.discard(name)


async def main(startup_timeout: float | None) -> None:
    """Wait, and answer questions until there are no more."""
    # What others print is no answer.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, force=True)
    await Waiting.prepare()
    waiting = Waiting(startup_timeout)
    answers: dict[str, Callable[[], Any]] = {
        "attached": lambda: len(waiting.attached),
        "news": waiting.news,
        "resident": _resident,
    }
    async for line in _questions():
        question = json.loads(line)
        answer = waiting.wait_for(question["wait"]) if isinstance(question, dict) else answers[question]()
        print(json.dumps(answer), file=out)
    # Nothing is left to be done well: what waits here waits for nothing.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
