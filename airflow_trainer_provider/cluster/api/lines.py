"""Splits a stream into lines."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator

from airflow_trainer_provider.text.printable import CUT

#: The most bytes of a block, unless a single line has more: they are processed in about a millisecond.
_BLOCK = 32 * 1024
#: The most bytes of the time that the API puts before each log line, with the space after it.
_TIME = 40


async def split_lines(chunks: AsyncIterable[bytes], longest: int) -> AsyncIterator[bytes]:
    """The lines of a stream, without their line breaks. The last line need not end with one.

    :param chunks: the stream, in pieces of any size.
    :param longest: how many bytes of a line are kept. A longer line is cut, and a note at its end says so.
    """
    async for block in split_blocks(chunks, longest):
        for line in block.split(b"\n"):
            yield line


async def split_blocks(
    chunks: AsyncIterable[bytes], longest: int, *, overwritten: bool = False
) -> AsyncIterator[bytes]:
    """The lines of a stream in blocks: as many whole lines as have arrived, with line breaks only between them.

    :param chunks: the stream, in pieces of any size.
    :param longest: as for :func:`split_lines`.
    :param overwritten: whether the stream is a log, with a time before each line. From a line that is too long, the
        text that a carriage return overwrites is dropped first, so that the line ends with what a terminal shows in the
        end.
    """
    begun = _Line(longest, overwritten)
    most = min(_BLOCK, longest)
    async for chunk in chunks:
        for block in _blocks_of(chunk, begun, longest, most):
            yield block
    if begun.kept:
        yield begun.take()


def _blocks_of(chunk: bytes, begun: _Line, longest: int, most: int) -> Iterator[bytes]:
    """The whole lines that end in a chunk, block by block.

    :param begun: the unfinished line: on entry the beginning of the chunk's first line, on return that of its last one.
    :param longest: as for :func:`split_lines`.
    :param most: the most bytes of a block, unless a single line has more.
    """
    if begun.kept:
        first = chunk.find(b"\n")
        begun.add(chunk if first < 0 else chunk[:first])
        if first < 0:
            return
        if begun.is_long:
            yield begun.take()
            chunk = chunk[first + 1 :]
        else:
            chunk = begun.take() + chunk[first:]
    start = 0
    while (end := _block_end(chunk, start, most)) >= 0:
        if end - start > longest:
            begun.add(chunk[start:end])
            yield begun.take()
        else:
            yield chunk[start:end]
        start = end + 1
    begun.add(chunk[start:])


def _block_end(chunk: bytes, start: int, most: int) -> int:
    """The position of the line break at which a block ends; -1 where there is none.

    :param start: where the block begins.
    """
    end = chunk.rfind(b"\n", start, start + most + 1)
    return end if end >= 0 else chunk.find(b"\n", start + most)


class _Line:
    """A line whose end has not arrived yet.

    :param longest: how many of its bytes are kept.
    :param overwritten: as for :func:`split_blocks`.
    """

    def __init__(self, longest: int, overwritten: bool) -> None:
        self._longest = longest
        self._overwritten = overwritten
        self._is_cut = False
        self._dropped = b""
        #: Whether the line has been longer than the limit at any time.
        self.is_long = False
        self.kept = bytearray()

    def add(self, piece: bytes) -> None:
        """Add the next piece of the stream."""
        if len(self.kept) + len(piece) <= self._longest:
            self.kept += piece
            return
        self.is_long = True
        whole = bytes(self.kept) + self._dropped + piece
        if self._overwritten:
            whole = self._shown(whole)
        self._is_cut = self._is_cut or len(whole) > self._longest
        # A carriage return at the end is kept: the next piece decides what it means.
        self._dropped = b"\r" if whole[self._longest :].endswith(b"\r") else b""
        self.kept = bytearray(whole[: self._longest])

    def take(self) -> bytes:
        """Return the line, and begin the next one."""
        line = bytes(self.kept) + (CUT.encode() if self._is_cut else b"")
        self.kept, self._dropped, self._is_cut, self.is_long = bytearray(), b"", False, False
        return line

    def _shown(self, line: bytes) -> bytes:
        """The line's time, and what follows its last carriage return."""
        time = line.find(b" ", 0, _TIME) + 1
        returned = line.rstrip(b"\r").rfind(b"\r")
        if returned <= time:
            return line
        self._is_cut = False
        return line[:time] + line[returned:]
