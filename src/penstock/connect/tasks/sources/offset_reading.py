"""Reads a connector's stored offsets for its tasks, up to date with all workers (OffsetStorageReader)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from penstock.connect.data.records import Offset, Partition
from penstock.connect.errors import ConnectError
from penstock.connect.stores import ConnectorOffsets

_ATTEMPT_S: Final = 1.0
"""A read waits for as long as the cluster needs, and notices after this time that it is closed."""


class StoredOffsets:
    """The offsets that are stored for a source. Every read first replays what others have written."""

    def __init__(self, offsets: ConnectorOffsets) -> None:
        self._offsets = offsets
        self._closed = threading.Event()

    def close(self) -> None:
        """Let current and later reads fail, from any thread."""
        self._closed.set()

    def offset(self, partition: Partition) -> Offset | None:
        """Return the offset stored for a partition. Raises ConnectError once this is closed."""
        [found] = self.offsets([partition])
        return found

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        """Return the offset of each partition, in the same order. Raises ConnectError once this is closed."""
        while not self._closed.is_set():
            try:
                self._offsets.refresh(_ATTEMPT_S)
            except TimeoutError:
                continue
            return self._offsets.offsets(partitions)
        raise ConnectError("offsets were read after the task or connector was cancelled")
