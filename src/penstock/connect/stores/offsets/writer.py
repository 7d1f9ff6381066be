"""A task's offsets between two commits."""

from __future__ import annotations

import threading

from penstock.connect.errors import ConnectError
from penstock.connect.stores.offsets.connector_offsets import ConnectorOffsets
from penstock.connect.stores.offsets.keys import Offset, Partition, key_of


class OffsetWriter:
    """Collects a task's offsets until they are flushed (OffsetStorageWriter). Any thread may add offsets.

    A flush begins with `begin`, which returns the records, and ends with `done` or `failed`. After a failure
    the offsets are written by the next flush, unless newer ones have taken their place.
    """

    def __init__(self, offsets: ConnectorOffsets) -> None:
        self._offsets = offsets
        self._lock = threading.Lock()
        self._waiting: dict[bytes, tuple[Partition, Offset | None]] = {}
        self._flushing: dict[bytes, tuple[Partition, Offset | None]] | None = None

    def add(self, partition: Partition, offset: Offset | None) -> None:
        """Note how far a partition was read. Raises DataError for an invalid partition."""
        key = key_of(self._offsets.connector, partition)
        with self._lock:
            self._waiting[key] = partition, offset

    def begin(self) -> dict[bytes, bytes | None]:
        """Take the offsets to write; none if there are no new ones.

        Raises ConnectError if another flush has not ended, and DataError for an invalid offset.
        """
        with self._lock:
            if self._flushing is not None:
                raise ConnectError("OffsetStorageWriter is already flushing")
            if not self._waiting:
                return {}
            records = self._offsets.encoded(self._waiting.values())
            self._flushing, self._waiting = self._waiting, {}
            return records

    def done(self) -> None:
        """End a flush whose offsets are written."""
        with self._lock:
            self._flushing = None

    def failed(self) -> None:
        """End a flush whose offsets are not written; they are kept."""
        with self._lock:
            if self._flushing is not None:
                self._waiting = self._flushing | self._waiting
                self._flushing = None

    def flush(self) -> bool:
        """Write the offsets plainly; return whether there were any. Raises ConnectError, and DataError."""
        records = self.begin()
        if not records:
            return False
        try:
            self._offsets.set(records)
        except BaseException:
            self.failed()
            raise
        self.done()
        return True
