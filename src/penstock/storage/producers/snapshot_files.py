"""Manages the snapshots of producer state in a partition's directory.

The thread that appends writes and removes them; a flush syncs them.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.storage.disk.files import FileSystem
from penstock.storage.names import DELETED_SUFFIX, PRODUCER_SNAPSHOT_SUFFIX, offset_file_name, offset_of_file
from penstock.storage.producers.snapshot_format import SnapshotCorrupt, SnapshotEntry, decode, encode

log = logging.getLogger(__name__)

_NONE: Final = -1


class ProducerSnapshots:
    """The snapshots of one partition, ordered by the offset that each describes."""

    def __init__(self, directory: Path, files: FileSystem) -> None:
        self._directory = directory
        self._files = files
        self._offsets = sorted(
            offset
            for path in directory.glob("*" + PRODUCER_SNAPSHOT_SUFFIX)
            if (offset := offset_of_file(path.name)) is not None
        )
        self._unsynced: list[Path] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def _path(self, offset: int) -> Path:
        return self._directory / offset_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)

    def write(self, offset: int, entries: Iterable[SnapshotEntry]) -> None:
        """Write the state at `offset`, unless a snapshot at least as new exists; `sync` makes it durable."""
        latest = self._offsets[-1] if self._offsets else _NONE
        assert offset >= latest, f"a snapshot at {latest} lies beyond the end of the log, {offset}"
        if offset <= max(latest, 0):
            return
        path = self._path(offset)
        self._files.write_file(path, encode(entries), sync=False)
        self._offsets.append(offset)
        self._unsynced.append(path)

    def sync(self) -> None:
        """Make the snapshots written so far durable. May run in a worker."""
        while self._unsynced:
            self._files.sync_path(self._unsynced[0])
            del self._unsynced[0]

    def newest(self, first_offset: int, log_end_offset: int) -> tuple[int, list[SnapshotEntry]] | None:
        """Return the newest sound snapshot from `first_offset` to the end with its offset, or None.

        Snapshots outside of that range are removed, and so are damaged ones that are newer.
        """
        for offset in list(self._offsets):
            if not first_offset <= offset <= log_end_offset:
                self.remove(offset)
        for offset in reversed(list(self._offsets)):
            path = self._path(offset)
            try:
                return offset, decode(path.read_bytes())
            except SnapshotCorrupt as error:
                log.warning("damaged producer snapshot dropped file=%s error=%s", path, error)
                self.remove(offset)
        return None

    def remove_stray(self, base_offsets: list[int]) -> None:
        """Keep snapshots at segment boundaries and the newest one beyond them (KAFKA-9393)."""
        strays = [offset for offset in self._offsets if offset not in set(base_offsets)]
        newest_base = base_offsets[-1] if base_offsets else _NONE
        keep = strays[-1:] if strays and strays[-1] > newest_base else []
        for offset in strays:
            if offset not in keep:
                self.remove(offset)

    def remove_above(self, offset: int) -> None:
        for snapshot in self._offsets[bisect_left(self._offsets, offset + 1) :]:
            self.remove(snapshot)

    def remove(self, offset: int) -> None:
        if offset in self._offsets:
            self._offsets.remove(offset)
        self._files.remove_if_exists(self._path(offset))

    def mark_deleted(self, offset: int) -> list[Path]:
        """Rename the snapshot at `offset`, if any, as deleted. Returns its path, for a worker to remove."""
        if offset not in self._offsets:
            return []
        self._offsets.remove(offset)
        path = self._path(offset)
        renamed = path.with_name(path.name + DELETED_SUFFIX)
        try:
            self._files.rename(path, renamed)
        except FileNotFoundError:
            return []
        return [renamed]
