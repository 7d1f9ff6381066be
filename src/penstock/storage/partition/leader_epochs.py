"""Records the start offset of each leader epoch, and keeps them in a checkpoint file (KIP-101).

The file is `leader-epoch-checkpoint` in a partition's directory:

    0                   version
    2                   entries
    0 0                 epoch, start offset
    3 1042

An append keeps a new epoch in memory. The next flush writes it, before the recovery point moves past it:
after a crash, recovery reads unwritten epochs from the batches above that point, which carry them.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from penstock.storage.disk.checkpoints import read_entries, write_entries
from penstock.storage.disk.files import FileSystem

log = logging.getLogger(__name__)

FILE_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first; both columns increase."""

    def __init__(self, directory: Path, files: FileSystem) -> None:
        self._path = directory / FILE_NAME
        self._files = files
        self._entries: list[EpochEntry] = []
        self._dirty = not self._path.exists()
        self.is_damaged = False
        """Whether the file could not be parsed, so that the epochs must be read from the batches."""
        try:
            for fields in read_entries(self._path, columns=2):
                self.assign(int(fields[0]), int(fields[1]))
        except ValueError as error:
            log.error("damaged file, rebuilding it from the batches file=%s error=%s", self._path, error)
            self._entries, self._dirty, self.is_damaged = [], True, True
        if self._entries:
            self._dirty = False

    @property
    def entries(self) -> list[EpochEntry]:
        return self._entries

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 if none is known."""
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`; entries that contradict this are dropped."""
        if self._entries:
            last = self._entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return
        kept = [entry for entry in self._entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._replace([*kept, EpochEntry(epoch, start_offset)])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """The largest known epoch at or below `epoch`, and its end offset; (-1, -1) if unknown."""
        entries = self._entries
        if epoch != UNDEFINED_EPOCH and epoch == self.latest:
            return EpochEntry(epoch, log_end_offset)
        above = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if epoch == UNDEFINED_EPOCH or above == len(entries):
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        found = entries[above - 1].epoch if above else epoch
        return EpochEntry(found, entries[above].start_offset)

    def epoch_for(self, offset: int) -> int:
        """The epoch in which `offset` was, or will be, written; -1 if unknown."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or above `end_offset`."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended below `start_offset`; the epoch of that offset now begins there."""
        at = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if at and self._entries[at - 1].start_offset < start_offset:
            first = EpochEntry(self._entries[at - 1].epoch, start_offset)
            self._replace([first, *self._entries[at:]])

    def clear(self) -> None:
        self._replace([])

    def _replace(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        self._dirty = True

    def flush(self) -> None:
        """Write the file if an epoch changed since the last flush. May run in a worker during appends."""
        if self._dirty:
            self._dirty = False
            try:
                write_entries(self._files, self._path, self._entries)
            except OSError:
                self._dirty = True
                raise
