"""The operating-system calls through which storage accesses the disk.

Every write, sync, rename and removal of this package goes through a `FileSystem`, so that a test can
substitute one that tears writes, loses unsynced data or runs out of space. Most methods are the functions of
`os` themselves, so the indirection costs the hot path nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from penstock.storage.disk.file_identity import identity
from penstock.storage.disk.writeback import WriteBehind, raise_lost_writes, write_back
from penstock.storage.names import TEMPORARY_SUFFIX


class FileSystem:
    """The real file system. A substitute overrides any of these with the same signature."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    preadv = staticmethod(os.preadv)
    pwrite = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fdatasync = staticmethod(os.fdatasync)
    fsync = staticmethod(os.fsync)
    rename = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)
    write_back = staticmethod(write_back)
    write_back_soon = staticmethod(WriteBehind().write_soon)
    raise_lost_writes = staticmethod(raise_lost_writes)
    identity = staticmethod(identity)
    mkdir = staticmethod(os.makedirs)
    rmdir = staticmethod(os.rmdir)

    def drop_clean_cache(self, fd: int) -> None:
        """Drop a file's clean pages from the page cache, so that later reads come from the disk.

        This is for a file whose sync has failed: the kernel marks pages that it could not write as clean.
        Pages that are not written yet stay.
        """
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def set_read_ahead(self, fd: int, wanted: bool) -> None:
        """Let the kernel read ahead in a file, or keep it from reading more than is asked for."""
        if hasattr(os, "posix_fadvise"):  # not on macOS
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_NORMAL if wanted else os.POSIX_FADV_RANDOM)

    def write_all(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data` at `position`, continuing after short writes."""
        written = self.pwrite(fd, data, position)
        if written == len(data):
            return
        with memoryview(data) as view:
            while written < len(view):
                written += self.pwrite(fd, view[written:], position + written)

    def sync_directory(self, directory: Path) -> None:
        """Make creations, renames and removals in `directory` durable."""
        fd = self.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.fsync(fd)
        finally:
            self.close(fd)

    def write_file(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Create `path`, or overwrite it in place."""
        fd = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            self.write_all(fd, data, 0)
            if sync:
                self.fsync(fd)
        finally:
            self.close(fd)

    def write_atomically(self, path: Path, data: bytes) -> None:
        """Replace `path` durably; a crash leaves either the old or the new content, whole."""
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        self.write_file(temporary, data, sync=True)
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def sync_path(self, path: Path) -> None:
        """Sync a file by name; do nothing if it no longer exists."""
        try:
            fd = self.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            self.fsync(fd)
        finally:
            self.close(fd)

    def remove_if_exists(self, path: Path) -> bool:
        try:
            self.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def remove_tree(self, directory: Path) -> None:
        """Remove a directory with its files; skip what no longer exists. Raises OSError."""
        try:
            for path in directory.iterdir():
                self.remove_if_exists(path)
            self.rmdir(directory)
        except FileNotFoundError:
            return


REAL_FILES: Final = FileSystem()
