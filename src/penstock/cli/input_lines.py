"""Lines of a file, a pipe or a terminal, read so that other work can go on while none arrives."""

import os
import select
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

IDLE_S: Final = 0.1
"""The time without input after which the other work gets its turn."""

_CHUNK_BYTES: Final = 65536


def lines_of(source: BinaryIO, when_idle: Callable[[], None]) -> Iterator[bytes]:
    """Yield the lines without their ends, and call *when_idle* again and again while none arrives.

    Nothing may have been read from *source* before. Bytes in memory, which have no file descriptor, are
    all there at once.
    """
    try:
        descriptor = source.fileno()
    except OSError:
        yield from (line.rstrip(b"\r\n") for line in source)
        return
    begun: list[bytes] = []
    while chunk := _next_chunk(descriptor, when_idle):
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun).rstrip(b"\r\n")
            begun = [others.pop()]
            yield from (line.rstrip(b"\r\n") for line in others)
    if last := b"".join(begun):
        yield last.rstrip(b"\r\n")


def _next_chunk(descriptor: int, when_idle: Callable[[], None]) -> bytes:
    """Wait for bytes, and return those that have arrived; none at the end of the input."""
    while not select.select([descriptor], [], [], IDLE_S)[0]:
        when_idle()
    return os.read(descriptor, _CHUNK_BYTES)
