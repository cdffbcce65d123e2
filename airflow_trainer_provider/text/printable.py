"""Reduces foreign text to printable characters, so that it cannot control a terminal or disguise itself on a page."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

#: How many characters of a line are shown.
LONGEST_LINE = 32 * 1024
#: How many bytes of a line are read: enough for that many characters.
LONGEST_LINE_BYTES = 4 * LONGEST_LINE
#: The note at the end of a line that was cut.
CUT = " [the rest of this line was cut]"
#: The line of a Python exception, with the tag of a launcher, such as "[rank1]: ", before it.
EXCEPTION = re.compile(r"(?:\[\w+\]: )?(?P<exception>(?:\w+\.)*\w*(?:Error|Exception|Interrupt): .*)")
#: Escape sequences (ECMA-48): CSI sequences such as colours; strings such as a window's title, with their terminator;
#: and all others. A string without a terminator is text.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
#: C1 controls, and the escape sequences that mean the same.
_C1 = {
    "\x90": "\x1bP",
    "\x98": "\x1bX",
    "\x9b": "\x1b[",
    "\x9c": "\x1b\\",
    "\x9d": "\x1b]",
    "\x9e": "\x1b^",
    "\x9f": "\x1b_",
}
#: Controls that separate words or lines.
_SEPARATORS = "\v\f\x1c\x1d\x1e\x1f\x85"
_REPLACEMENT = "\ufffd"


class _Shown(dict[int, str]):
    """A table for :meth:`str.translate`, filled on demand."""

    def __missing__(self, code: int) -> str:
        shown = self[code] = _shown(chr(code))
        return shown


_SHOWN = _Shown()


def plain(line: bytes) -> str:
    """A line as a terminal finally shows it: without escape sequences, overwritten text and line break.

    Carriage returns in the message of a Python exception overwrite nothing: the exception's class would be lost.

    :param line: as it was written.
    """
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    if _is_printable(text):
        return text
    text = _overwritten(_without_sequences(text))
    return text if _is_printable(text) else text.translate(_SHOWN)


def shorten(text: str, longest: int = LONGEST_LINE) -> str:
    """Cut a line that is too long, with a note at its end.

    :param text: the line, as :func:`plain` returns it.
    :param longest: how many of its characters are kept.
    """
    return text if len(text) <= longest else text[:longest] + CUT


def last_lines(lines: Sequence[str], longest: int, most: int) -> tuple[str, ...]:
    """The last of some lines, each of which is cut as by :func:`shorten`.

    :param lines: as :func:`plain` returns them.
    :param longest: how many bytes of each are kept, as UTF-8. No character is kept in part.
    :param most: how many bytes all of them may have together; the last line is kept in any case.
    """
    kept: list[str] = []
    for line in reversed(lines):
        text = _cut(line, longest)
        most -= len(_utf8(text))
        if kept and most < 0:
            break
        kept.append(text)
    return tuple(reversed(kept))


def _cut(text: str, longest: int) -> str:
    data = _utf8(text)
    return text if len(data) <= longest else data[:longest].decode("utf-8", "ignore") + CUT


def _utf8(text: str) -> bytes:
    # JSON may have lone surrogates. The character that replaces them has as many bytes.
    return text.encode("utf-8", "surrogatepass")


def printable(text: str) -> str:
    """A text with printable characters, tabs and line breaks only.

    :param text: foreign text, e.g. a message from the cluster.
    """
    if _is_printable(text):
        return text
    lines = _without_sequences(text).replace("\r\n", "\n").split("\n")
    return "\n".join([line.translate(_SHOWN) for line in lines])


def _without_sequences(text: str) -> str:
    if not text.isascii():
        for char, sequence in _C1.items():
            text = text.replace(char, sequence)
    return _SEQUENCE.sub("", text) if "\x1b" in text else text


def _is_printable(text: str) -> bool:
    return text.isprintable() or ("\t" in text and text.replace("\t", "").isprintable())


def _overwritten(text: str) -> str:
    """The rest of a line after its carriage returns and backspaces."""
    text = text.rstrip("\r")
    if "\r" in text:
        text = text.replace("\r", " ") if EXCEPTION.match(text) else text.rpartition("\r")[2]
    if "\b" not in text:
        return text
    kept: list[str] = []
    for char in text:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)


def _shown(char: str) -> str:
    if char == "\t" or char.isprintable():
        return char
    category = unicodedata.category(char)
    if char in _SEPARATORS or category.startswith("Z"):
        return " "
    # Controls, bidirectional marks and other invisible formatting can make a text look like another one.
    return "" if category in ("Cc", "Cf") else _REPLACEMENT
