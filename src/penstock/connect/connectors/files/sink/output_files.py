"""Files under a temporary name until they are complete.

A complete file is named after its topic, its partition and the offset of its first record. A task that
writes the same records again replaces the file, and removes files that begin with one of its other records:
so each record is in one file, whatever was rotated differently before a crash.
"""

from __future__ import annotations

import gzip
import os
import re
import uuid
from pathlib import Path
from typing import IO, Final, cast

import zstandard

from penstock.client.connections.metadata import TopicPartition

OFFSET_DIGITS: Final = 10
"""Digits of the offset in a name, as in Confluent's connectors; larger offsets have more."""
_TEMPORARY: Final = ".tmp"
_OWNER: Final = ".owner"
"""The file that names the task a directory belongs to."""
_COMPRESSED: Final = {"none": "", "gzip": ".gz", "zstd": ".zst"}


class PartitionDirectory:
    """The directory of one partition, which belongs to the task that claimed it last.

    A task that was declared dead but still runs would otherwise remove files with records that are committed.
    """

    def __init__(self, root: str, partition: TopicPartition) -> None:
        """Claim the directory, and remove what lost tasks have left. Raises OSError."""
        self.partition = partition
        self.path = Path(root) / partition.topic / f"partition={partition.partition}"
        self._owner = uuid.uuid4().hex
        self._claim()
        for each in self.path.glob(f".*{_TEMPORARY}"):
            each.unlink(missing_ok=True)

    def _claim(self) -> None:
        missing = [each for each in (self.path, *self.path.parents) if not each.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        for each in missing:
            sync_directory(each.parent)
        (self.path / _OWNER).write_text(self._owner)

    def check_owner(self) -> None:
        """Raise PermissionError if another task has claimed the directory; claim it if it was removed."""
        try:
            owner = (self.path / _OWNER).read_text()
        except FileNotFoundError:
            self._claim()
            return
        if owner != self._owner:
            raise PermissionError(
                f"another task writes the files of {self.partition} in {self.path}: it has claimed them since"
                " this one was assigned the partition"
            )


def sync_directory(path: Path) -> None:
    """Store the names of files in a directory on disk."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class OutputFile:
    """One file that is written."""

    def __init__(self, directory: PartitionDirectory, first: int, suffix: str, compression: str) -> None:
        """Create the file under a temporary name. Raises OSError."""
        self.first = first
        """The offset of the first record."""
        directory.check_owner()
        self._owned = directory
        self._directory = directory.path
        partition = directory.partition
        start = f"{partition.topic}+{partition.partition}+"
        self._path = self._directory / f"{start}{first:0{OFFSET_DIGITS}}{suffix}{_COMPRESSED[compression]}"
        self._offset_in_name = re.compile(rf"{re.escape(start)}(\d+)\.[a-z.]+")
        self._temporary = self._directory / f".{self._path.name}.{uuid.uuid4().hex}{_TEMPORARY}"
        self._file = self._temporary.open("wb")
        self.out: IO[bytes] = self._file
        if compression == "gzip":
            # Without a name and a time, so that the same records give the same bytes.
            self.out = cast(IO[bytes], gzip.GzipFile(filename="", fileobj=self._file, mode="wb", mtime=0))
        elif compression == "zstd":
            writer = zstandard.ZstdCompressor().stream_writer(self._file, closefd=False)
            self.out = cast(IO[bytes], writer)

    def complete(self, last: int) -> None:
        """Give the file its name once it is on disk; `last` is the offset of its last record."""
        if self.out is not self._file:
            self.out.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._owned.check_owner()  # here, because the steps before can take long
        for path in self._directory.iterdir():
            found = self._offset_in_name.fullmatch(path.name)
            if found is not None and self.first < int(found[1]) <= last:
                path.unlink(missing_ok=True)
        self._temporary.replace(self._path)
        sync_directory(self._directory)

    def discard(self) -> None:
        """Remove the file: its records will be read again."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)
