"""Crashes of the process and the machine during any operation of a node's logs, from printed seeds.

`PENSTOCK_HISTORIES` sets their number; thousands run per minute.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_history import CrashHistory

HISTORIES = int(os.environ.get("PENSTOCK_HISTORIES", "150"))
CHUNKS = 10
MEMORY = Path("/dev/shm")


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory in memory if available: the simulated files track what a disk would contain."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_flushed_survives_and_nothing_is_invented(chunk: int, root: Path) -> None:
    for seed in range(chunk, HISTORIES, CHUNKS):
        directory = root / str(seed)
        directory.mkdir()
        history = CrashHistory(seed, directory)
        try:
            history.run()
        except BaseException:
            print(f"seed {seed}", *history.story, sep="\n")
            raise
