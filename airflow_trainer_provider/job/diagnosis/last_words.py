"""Summarizes the last output of a container in one line."""

from __future__ import annotations

import json
import re

#: A Python error, with the tag of a launcher, such as "[rank1]: ", before it.
_ERROR = re.compile(r"(?:\[\w+\]: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt): \S.*)")
#: Rulers, headings and table rows in the output of launchers.
_LAYOUT = re.compile(r"\W*|.*:|\w+ +: .*|(?:\w+: )?<.*>")
#: Characters.
_LONGEST = 300


def last_words(message: str | None) -> str | None:
    """The line of a message that best explains the end: the last error, else the last line that is not only layout.

    :param message: of a container or a pod. It can be the end of a log; the result of a training that failed after it
        has written that one says nothing of the end.
    """
    lines = _lines(message or "")
    errors = [found[1] for line in lines if (found := _ERROR.fullmatch(line))]
    texts = [line for line in lines if not _LAYOUT.fullmatch(line)]
    return (errors or texts or lines)[-1][:_LONGEST] if lines else None


def _lines(message: str) -> list[str]:
    return [] if _is_result(message) else [line.strip() for line in message.splitlines() if re.search(r"\w", line)]


def _is_result(message: str) -> bool:
    if not message.lstrip().startswith("{"):
        return False
    try:
        json.loads(message)
    except (ValueError, RecursionError):
        return False
    return True
