"""Growing files are written back early, in steps, at a distance from their end."""

import os
from pathlib import Path

import pytest
from log_building import LogBench, append, values_batch

from penstock.storage.config import LogConfig
from penstock.storage.disk.files import FileSystem
from penstock.storage.disk.writeback import WriteBehind, write_back

MIB = 1 << 20


class NotedFiles(FileSystem):
    """Files that record the ranges scheduled for writeback."""

    def __init__(self) -> None:
        self.noted: list[tuple[int, int]] = []

    def write_back_soon(self, file: object, position: int, size_bytes: int) -> None:  # type: ignore[override]
        self.noted.append((position // MIB, size_bytes // MIB))


def test_a_growing_segment_is_written_back_behind_its_end(tmp_path: Path) -> None:
    files = NotedFiles()
    bench = LogBench(tmp_path / "flights-0")
    bench.files = files
    bench.config = LogConfig(max_message_bytes=4 * MIB)
    log = bench.open()
    batch = values_batch([bytes(MIB)])
    for _ in range(20):
        append(log, batch)
    assert files.noted == [(0, 8), (8, 8)]
    log.truncate_to(9)
    for _ in range(10):
        append(log, batch)
    assert files.noted[2:] == [(9, 8)]
    log.close()


def test_bytes_written_back_are_those_of_the_file(tmp_path: Path) -> None:
    data = os.urandom(20 * MIB + 5)
    with (tmp_path / "file").open("w+b") as file:
        file.write(data)
        file.flush()
        write_back(file.fileno(), len(data))
        file.seek(0)
        assert file.read() == data


def test_what_cannot_be_advised_is_no_failure(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    write_back(reader, 100)
    os.close(reader)
    os.close(writer)
    write_back(reader, 100)


def test_a_file_that_is_gone_is_passed_over() -> None:
    class Gone:
        @property
        def fd(self) -> int:
            raise FileNotFoundError("gone")

    behind = WriteBehind()
    for _ in range(200):
        behind.write_soon(Gone(), 0, MIB)
    behind._thread.shutdown()
    assert behind._room.acquire(blocking=False)


@pytest.mark.parametrize("size", [0, 1])
def test_little_is_written_back_too(tmp_path: Path, size: int) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.write(bytes(size))
        file.flush()
        write_back(file.fileno(), size)
