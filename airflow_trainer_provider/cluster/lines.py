"""Lines out of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator


async def split_lines(chunks: AsyncIterable[bytes], longest: int) -> AsyncIterator[bytes]:
    """Whole lines, without their line breaks; the last one also without one.

    :param chunks: the stream, in pieces of any size.
    :param longest: bytes of a line that are kept. A longer one is cut, and says so at its end.
    """
    line, cut = bytearray(), 0
    async for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            cut += _append(line, end, longest)
            yield _whole(line, cut)
            line, cut = bytearray(), 0
        cut += _append(line, rest, longest)
    if line:
        yield _whole(line, cut)


def _append(line: bytearray, piece: bytes, longest: int) -> int:
    """Add to a line what it may still take; returns how many bytes it does not."""
    room = max(longest - len(line), 0)
    line += piece[:room]
    return max(len(piece) - room, 0)


def _whole(line: bytearray, cut: int) -> bytes:
    return bytes(line) + (f" [{cut} more bytes of this line were cut]".encode() if cut else b"")
