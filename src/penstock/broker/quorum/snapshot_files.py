"""The snapshots beside the metadata log: list, write, send in pieces and receive in pieces.

`write`, `read` and `complete` block and run in a worker; the rest runs on the loop.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.consensus.log import SnapshotId
from penstock.metadata import snapshot as snapshots
from penstock.metadata.snapshot import Snapshot, SnapshotError
from penstock.storage.disk.files import FileSystem

log = logging.getLogger(__name__)

_HEADER_BYTES_MAX: Final = 64 * 1024
"""More than the size of the batch that holds a snapshot's header and its voters."""


class SnapshotFiles:
    """``NNNN-EEEE.checkpoint`` files in the directory of the metadata log."""

    def __init__(self, directory: Path, files: FileSystem) -> None:
        self._directory = directory
        self._files = files
        self._ids: list[SnapshotId] = []
        self._last_timestamps_ms: dict[SnapshotId, int | None] = {}
        self._receiving: tuple[SnapshotId, int] | None = None

    def scan(self) -> None:
        """List the snapshots and remove unfinished ones. Blocks. Raises OSError."""
        for path in self._directory.glob("*.checkpoint.part"):
            with contextlib.suppress(FileNotFoundError):
                self._files.unlink(path)
        parsed = (snapshots.parse_file_name(path.name) for path in self._directory.iterdir())
        self._ids = sorted(SnapshotId(*found) for found in parsed if found is not None)

    @property
    def earliest(self) -> SnapshotId | None:
        return self._ids[0] if self._ids else None

    @property
    def latest(self) -> SnapshotId | None:
        return self._ids[-1] if self._ids else None

    @property
    def after_earliest(self) -> SnapshotId:
        """The second oldest snapshot, which becomes the earliest next. At least two must exist."""
        return self._ids[1]

    def path(self, at: SnapshotId) -> Path:
        return self._directory / snapshots.file_name(*at)

    def _part(self, at: SnapshotId) -> Path:
        path = self.path(at)
        return path.with_name(path.name + ".part")

    # Whole snapshots

    def read(self, at: SnapshotId) -> Snapshot:
        """Read a snapshot. Raises SnapshotError, which names the file, if it is damaged, and OSError."""
        return self.decode(self.path(at))

    def decode(self, path: Path) -> Snapshot:
        """Read any snapshot file. Raises SnapshotError, OSError."""
        try:
            content = snapshots.decode_snapshot(path.read_bytes())
        except SnapshotError as error:
            raise SnapshotError(f"{path.name}: {error}") from error
        if content.unknown_records:
            log.warning("metadata records skipped file=%s count=%d", path.name, content.unknown_records)
        return content

    def write(self, at: SnapshotId, batches: Iterable[bytes]) -> int:
        """Write a snapshot durably, or not at all; return its size in bytes. Call `add` next, on the loop."""
        data = b"".join(batches)
        self._files.write_file(self._part(at), data, sync=True)
        self._put_in_place(at)
        return len(data)

    def _put_in_place(self, at: SnapshotId) -> None:
        self._files.rename(self._part(at), self.path(at))
        self._files.sync_directory(self._directory)

    def add(self, at: SnapshotId) -> None:
        self._ids = sorted({*self._ids, at})

    def older_than(self, at: SnapshotId) -> list[SnapshotId]:
        return [found for found in self._ids if found < at]

    def size_bytes(self) -> int:
        """The size of all snapshots in bytes. Raises OSError."""
        return sum(self.path(at).stat().st_size for at in self._ids)

    def last_timestamp_ms(self, at: SnapshotId) -> int | None:
        """When the newest record that a snapshot covers was appended; None if its file lacks the time.

        Raises OSError.
        """
        if at not in self._last_timestamps_ms:
            with self.path(at).open("rb") as file:
                beginning = file.read(_HEADER_BYTES_MAX)
            self._last_timestamps_ms[at] = snapshots.last_timestamp_ms(beginning)
        return self._last_timestamps_ms[at]

    def remove_older_than(self, at: SnapshotId) -> None:
        for superfluous in self.older_than(at):
            self._files.remove_if_exists(self.path(superfluous))
            self._last_timestamps_ms.pop(superfluous, None)
        self._ids = [found for found in self._ids if found >= at]

    # In pieces

    def piece(self, at: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Return bytes of a snapshot from ``position`` on, and its whole size; None if it cannot be read.

        Another node requested ``position`` and ``max_bytes``, so there may be no data there.
        """
        if at not in self._ids:
            return None
        try:
            fd = self._files.open(self.path(at), os.O_RDONLY)
        except OSError as error:
            log.error("metadata snapshot not readable file=%s error=%s", self.path(at), error)
            return None
        try:
            size = os.fstat(fd).st_size
            if not 0 <= position < size:
                return b"", size
            return self._files.pread(fd, max(0, min(max_bytes, size - position)), position), size
        except OSError as error:
            log.error("metadata snapshot not readable file=%s error=%s", self.path(at), error)
            return None
        finally:
            self._files.close(fd)

    @property
    def receiving(self) -> tuple[SnapshotId, int] | None:
        """The snapshot that is being received, and the number of bytes received so far."""
        return self._receiving

    def receive(self, at: SnapshotId) -> bool:
        """Start to receive a snapshot; return False if it is already here. Raises OSError."""
        if at in self._ids:
            return False
        self._files.write_file(self._part(at), b"", sync=False)
        self._receiving = (at, 0)
        return True

    def receive_piece(self, data: bytes | memoryview) -> None:
        """Append the next piece to the snapshot that is being received. Raises OSError."""
        assert self._receiving is not None, "no snapshot is being received"
        at, position = self._receiving
        fd = self._files.open(self._part(at), os.O_WRONLY)
        try:
            self._files.write_all(fd, data, position)
        finally:
            self._files.close(fd)
        self._receiving = (at, position + len(data))

    def complete(self) -> tuple[SnapshotId, Snapshot]:
        """Check and keep the received snapshot. Blocks. Raises SnapshotError if damaged, OSError."""
        assert self._receiving is not None, "no snapshot is being received"
        (at, _), self._receiving = self._receiving, None
        content = self.decode(self._part(at))
        self._files.sync_path(self._part(at))
        self._put_in_place(at)
        return at, content
