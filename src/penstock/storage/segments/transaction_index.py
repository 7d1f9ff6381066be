"""The index of a segment's aborted transactions (`.txnindex`, KIP-98).

An entry has 34 bytes, big endian, and is written when an abort marker is appended:

    version int16 (0) | producerId int64 | firstOffset int64 | lastOffset int64 | lastStableOffset int64

The file exists only if a transaction was aborted. Entries are few, so each is written at once. Once they have
been read, they stay in memory, because every `read_committed` fetch reads all entries from its segment on.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from penstock.storage.disk.files import FileSystem

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_last_offset: Final = attrgetter("last_offset")


class TransactionIndex:
    def __init__(self, path: Path, files: FileSystem) -> None:
        self.path = path
        self._files = files
        self._known: list[AbortedTransaction] | None = None
        """All entries, once they have been read. Readers in other threads may see the list grow."""
        self._lock = threading.Lock()
        """Held while `_known` is filled, so that no entry is written meanwhile."""

    def append(self, aborted: AbortedTransaction) -> None:
        """Append an entry. Raises OSError; the file may then end with a partial entry, which is ignored."""
        with self._lock:
            fd = self._files.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                end = os.fstat(fd).st_size // _ENTRY.size * _ENTRY.size
                self._files.write_all(fd, _ENTRY.pack(_VERSION, *aborted), end)
            finally:
                self._files.close(fd)
            if self._known is not None:
                self._known.append(aborted)

    def entries(self) -> list[AbortedTransaction]:
        """All entries in order; an entry truncated by a crash is ignored.

        Raises OSError, and ValueError if an entry has an unknown version.
        """
        if self._known is None:
            with self._lock:
                if self._known is None:
                    self._known = self._read()
                return self._known
        return self._known

    def keep_for_readers(self) -> None:
        """Load the entries before the file is removed, as readers may still need them. Raises OSError."""
        with suppress(ValueError):
            self.entries()

    def _read(self) -> list[AbortedTransaction]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        whole = memoryview(data)[: len(data) // _ENTRY.size * _ENTRY.size]
        result = []
        for version, *fields in _ENTRY.iter_unpack(whole):
            if version != _VERSION:
                raise ValueError(f"{self.path}: unknown version {version} of an aborted transaction")
            result.append(AbortedTransaction(*fields))
        return result

    def overlapping(
        self, start_offset: int, upper_bound_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that overlap [start, upper bound), and whether later segments can be skipped."""
        entries = self.entries()
        found = []
        # Each entry was written when its transaction ended, so last offsets increase.
        for number in range(bisect_left(entries, start_offset, key=_last_offset), len(entries)):
            aborted = entries[number]
            if aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose transaction ended at or above `offset`."""
        kept = sum(1 for aborted in self.entries() if aborted.last_offset < offset)
        self._keep(kept)

    def clear(self) -> None:
        self._keep(0)

    def _keep(self, count: int) -> None:
        self._known = None
        if not self.path.exists():
            return
        fd = self._files.open(self.path, os.O_WRONLY)
        try:
            self._files.ftruncate(fd, count * _ENTRY.size)
        finally:
            self._files.close(fd)
