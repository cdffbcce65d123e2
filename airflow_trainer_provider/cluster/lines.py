"""Lines out of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

#: Bytes of a block at most, unless a single line has more: what can be worked on in about a millisecond.
_BLOCK = 32 * 1024


async def split_lines(chunks: AsyncIterable[bytes], longest: int) -> AsyncIterator[bytes]:
    """Whole lines, without their line breaks; the last one also without one.

    :param chunks: the stream, in pieces of any size.
    :param longest: bytes of a line that are kept. A longer one is cut, and says so at its end.
    """
    async for block in split_blocks(chunks, longest):
        for line in block.split(b"\n"):
            yield line


async def split_blocks(chunks: AsyncIterable[bytes], longest: int) -> AsyncIterator[bytes]:
    """Whole lines, as many together as have come, with line breaks only between them.

    :param chunks: the stream, in pieces of any size.
    :param longest: as for :func:`split_lines`.
    """
    begun, cut = bytearray(), 0
    most = min(_BLOCK, longest)
    async for piece in chunks:
        chunk = piece
        if begun:
            first = chunk.find(b"\n")
            cut += _append(begun, chunk if first < 0 else chunk[:first], longest)
            if first < 0:
                continue
            if cut:
                yield _whole(begun, cut)
                chunk = chunk[first + 1 :]
            else:
                chunk = bytes(begun) + chunk[first:]
            begun, cut = bytearray(), 0
        start = 0
        while (end := _block_end(chunk, start, most)) >= 0:
            # One that is too long is one line.
            yield _whole(chunk[start : min(end, start + longest)], max(end - start - longest, 0))
            start = end + 1
        cut += _append(begun, chunk[start:], longest)
    if begun:
        yield _whole(begun, cut)


def _block_end(chunk: bytes, start: int, most: int) -> int:
    """The line break where the block ends that begins here; -1 where there is none."""
    end = chunk.rfind(b"\n", start, start + most + 1)
    return end if end >= 0 else chunk.find(b"\n", start + most)


def _append(line: bytearray, piece: bytes, longest: int) -> int:
    """Add to a line what it may still take; returns how many bytes it does not."""
    room = max(longest - len(line), 0)
    line += piece[:room]
    return max(len(piece) - room, 0)


def _whole(line: bytes | bytearray, cut: int) -> bytes:
    return bytes(line) + (f" [{cut} more bytes of this line were cut]".encode() if cut else b"")
