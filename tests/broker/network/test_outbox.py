"""An outbox sends all of its data in order, however little the socket accepts at a time."""

import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.network.outbox import FileTooShort, NotReady, Outbox


class Range:
    """A range of bytes in an open file, as a log returns it."""

    def __init__(self, fd: int, position: int, size: int) -> None:
        self.fd = fd
        self.position = position
        self._size = size
        self.in_memory = True
        self.data: memoryview | None = None

    def __len__(self) -> int:
        return self._size

    def is_ready(self, now_s: float) -> bool:
        return self.in_memory


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    with left, right:
        yield left, right


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(random.Random(7).randbytes(300_000))
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def drain(outbox: Outbox, reader: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        outbox.flush(0.0)
        received += reader.recv(50_000)
    return received


def test_bytes_and_file_ranges_arrive_in_order(pair: tuple[socket.socket, socket.socket], file: int) -> None:
    outbox = Outbox(pair[0])
    expected = b""
    for number in range(20):
        part = bytes([number]) * (number * 777 + 1)
        outbox.put(part)
        expected += part
        if number % 3 == 0:
            position, size = number * 1000, 9_000 + number
            outbox.put(Range(file, position, size))
            expected += os.pread(file, size, position)
    assert outbox.unsent_bytes == len(expected)
    assert not outbox.flush(0.0)
    assert drain(outbox, pair[1], len(expected)) == expected
    assert outbox.flush(0.0)
    assert outbox.unsent_bytes == 0


def test_an_empty_range_is_passed_over(pair: tuple[socket.socket, socket.socket], file: int) -> None:
    outbox = Outbox(pair[0])
    outbox.put(Range(file, 5, 0))
    outbox.put(b"x")
    assert outbox.flush(0.0)
    assert pair[1].recv(10) == b"x"


def test_a_range_beyond_the_end_of_its_file_is_an_error_not_a_loop(
    pair: tuple[socket.socket, socket.socket], file: int
) -> None:
    outbox = Outbox(pair[0])
    with pytest.raises(FileTooShort):
        outbox.put(Range(file, 299_999, 10))
    outbox.put(Range(file, 290_000, 10_001))
    with pytest.raises(FileTooShort):
        drain(outbox, pair[1], 10_001)


def test_a_closed_peer_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    outbox = Outbox(pair[0])
    outbox.put(b"x")
    with pytest.raises(OSError, match="Broken pipe"):
        outbox.flush(0.0)


def test_a_slice_that_left_memory_while_it_waited_has_to_be_read_first(
    pair: tuple[socket.socket, socket.socket], file: int
) -> None:
    outbox = Outbox(pair[0])
    outbox.put(b"head")
    piece = Range(file, 0, 300_000)
    piece.in_memory = False
    outbox.put(piece)
    assert not outbox.flush(0.0)  # a new piece counts as in memory until it has had to wait
    received = pair[1].recv(100_000)
    with pytest.raises(NotReady) as raised:
        outbox.flush(0.0)
    assert raised.value.part is piece
    outbox.resume()
    piece.in_memory = True
    received += drain(outbox, pair[1], 300_004 - len(received))
    assert received == b"head" + os.pread(file, 300_000, 0)


def test_what_was_read_already_is_sent_from_memory(
    pair: tuple[socket.socket, socket.socket], file: int
) -> None:
    outbox = Outbox(pair[0])
    part = Range(file, 0, 200_000)
    part.data = memoryview(random.Random(8).randbytes(200_000))
    small = Range(file, 0, 10)
    small.data = memoryview(b"0123456789")
    for one in (b"first", part, small, b"last"):
        outbox.put(one)
    assert drain(outbox, pair[1], 200_019) == b"first" + part.data + b"0123456789last"
    assert outbox.unsent_bytes == 0
