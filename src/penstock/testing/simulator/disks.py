"""A node's disks: their speed, and which of its log directories has failed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

from penstock.testing.crash_files import CrashFiles


class Disk:
    """The speed of a node's storage; the attributes may change at any time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.work_s = 0.002
        """The median duration of a piece of work in a worker, including a sync."""
        self.stall_rate = 0.0
        """The probability that a piece of work takes a hundred times as long."""

    def duration_s(self) -> float:
        duration_s = self.work_s * self.rng.lognormvariate(0, 0.7)
        if self.stall_rate and self.rng.random() < self.stall_rate:
            duration_s *= 100
        return duration_s


class DiskFiles(CrashFiles):
    """A disk for each directory under `root`; one of them may have failed, so that all calls to it fail."""

    def __init__(self, root: Path, rng: Random) -> None:
        super().__init__(root, rng)
        self._failed: str | None = None
        self._paths: dict[int, str] = {}
        """The paths of open files, by descriptor."""

    @property
    def failed(self) -> Path | None:
        """The directory whose disk has failed."""
        return None if self._failed is None else Path(self._failed)

    def fail(self, directory: Path) -> None:
        """Fail all calls to the directory until `replace`."""
        self._failed = str(directory)

    def replace(self, *, empty: bool) -> None:
        """Bring the disk back with what a power cut leaves on it, or replace it by an empty one.

        No process may hold files on it.
        """
        assert self._failed is not None
        name, self._failed = Path(self._failed).name, None
        self.replace_directory(name, empty=empty)

    def _check(self, path: object) -> None:
        if self._failed is not None and str(path).startswith(self._failed):
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)} (the disk has failed)", str(path))

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:  # type: ignore[override]
        self._check(path)
        fd = super().open(path, flags, mode)
        self._paths[fd] = str(path)
        return fd

    def pread(self, fd: int, size: int, position: int) -> bytes:
        if self._failed is not None:
            self._check(self._paths[fd])
        return super().pread(fd, size, position)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:  # type: ignore[override]
        if self._failed is not None:
            self._check(self._paths[fd])
        return super().pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:
        if self._failed is not None:
            self._check(self._paths[fd])
        super().ftruncate(fd, size)

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        if self._failed is not None:
            self._check(self._paths[fd])
        super().fsync(fd)

    fdatasync = fsync

    def rename(self, old: Path, new: Path) -> None:  # type: ignore[override]
        self._check(old)
        super().rename(old, new)

    def unlink(self, path: Path) -> None:  # type: ignore[override]
        self._check(path)
        super().unlink(path)

    def rmdir(self, path: Path) -> None:  # type: ignore[override]
        self._check(path)
        super().rmdir(path)

    def mkdir(self, path: Path, mode: int = 0o777, exist_ok: bool = False) -> None:  # type: ignore[override]
        self._check(path)
        super().mkdir(path, mode, exist_ok)
