"""Three replicas, a lossy network, late metadata and dying machines, from printed seeds.

`PENSTOCK_HISTORIES` sets their number.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from replica_history import History

from long_run import repetitions

HISTORIES = repetitions("PENSTOCK_HISTORIES", gate=50, long=1_000)
CHUNKS = 10
MEMORY = Path("/dev/shm")


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory in memory if available: the simulated files track what a disk would contain."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.longer
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_committed_stays_and_all_replicas_agree(chunk: int, root: Path) -> None:
    for seed in range(chunk, HISTORIES, CHUNKS):
        directory = root / str(seed)
        directory.mkdir()
        history = History(seed, directory)
        try:
            history.run()
        except BaseException:
            print(f"seed {seed}", *history.story, sep="\n")
            raise
