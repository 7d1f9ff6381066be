"""The end of a partition after a kill, read without the storage engine's code."""

import struct
from pathlib import Path
from typing import NamedTuple

BATCH_PREFIX = struct.Struct(">qi")  # base offset, length of the rest
INDEX_ENTRY = struct.Struct(">ii")  # relative offset, position


class Tail(NamedTuple):
    """The end of a partition's last segment, in bytes."""

    whole: int  # the size up to the end of the last whole batch
    torn: int  # the size of the partial batch after it
    last_batch: int  # where the last whole batch begins
    indexed: int  # the position in the last index entry

    @property
    def unindexed(self) -> bool:
        """Whether a whole batch lies beyond the last index entry."""
        return self.last_batch > self.indexed


def read_tail(partition_dir: Path) -> Tail:
    """The tail of the newest segment in *partition_dir*."""
    log = max(partition_dir.glob("*.log"))
    data = log.read_bytes()
    position = last_batch = 0
    while len(data) - position >= BATCH_PREFIX.size:
        _, length = BATCH_PREFIX.unpack_from(data, position)
        end = position + BATCH_PREFIX.size + length
        if length <= 0 or end > len(data):
            break
        last_batch, position = position, end
    index = log.with_suffix(".index").read_bytes() if log.with_suffix(".index").exists() else b""
    indexed = max((at for _, at in INDEX_ENTRY.iter_unpack(index[: len(index) // 8 * 8])), default=0)
    return Tail(position, len(data) - position, last_batch, indexed)
