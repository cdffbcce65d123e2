"""A trigger that logs lines, as a provider's own would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

LINE = "epoch 3 step {:06d} loss 0.123456 accuracy 0.987654 throughput 1234.5 images/s"
#: Lines between which it lets other triggers run.
_TOGETHER = 100


class LinesTrigger(BaseTrigger):
    """Logs lines, and fires.

    :param lines: how many.
    """

    def __init__(self, lines: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lines = lines

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Where this class is, and what to make it with."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"lines": self.lines}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Log the lines."""
        for number in range(self.lines):
            self.log.info(LINE.format(number))
            if number % _TOGETHER == 0:
                await asyncio.sleep(0)
        yield TriggerEvent(None)
