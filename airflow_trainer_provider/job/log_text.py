"""What a replica wrote, as people read it."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def plain(line: bytes) -> str:
    """A line as a terminal would show it in the end: no colours, no line end, nothing that was overwritten.

    :param line: as it was written.
    """
    text = line.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text.rstrip("\r\n")
    return text.rpartition("\r")[2] if "\r" in text else text
