"""Temporary directories of clusters, which the next run removes if this one is killed.

The process that made a directory holds a lock on a file in it. The kernel releases the lock when the process
ends in any way, so a directory whose lock is free has no owner, whatever process ids have been reused.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Final

PREFIX: Final = "penstock-"
OWNER: Final = "owner.lock"


class Scratch:
    """A temporary directory that goes with `remove`, with this object, or at the end of the process."""

    def __init__(self) -> None:
        remove_abandoned(tempfile.gettempdir())
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # The file gets its name once it is locked, so that no other process finds it unlocked.
        unnamed = self.path / "unnamed"
        self._fd = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        unnamed.rename(self.path / OWNER)
        self.remove = weakref.finalize(self, _remove, self.path, self._fd, os.getpid())


def _remove(path: Path, fd: int, owner_pid: int) -> None:
    if os.getpid() != owner_pid:
        return  # a fork of the process, in which the object exists too
    shutil.rmtree(path, ignore_errors=True)
    os.close(fd)


@functools.cache  # once per process
def remove_abandoned(parent: str) -> None:
    """Remove the directories in ``parent`` whose owners have ended."""
    for owner in Path(parent).glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError):  # it is another user's, or gone by now
            fd = os.open(owner, os.O_RDWR)
            try:
                if _is_free(fd) and not _nodes_run(owner.parent):
                    shutil.rmtree(owner.parent, ignore_errors=True)
            finally:
                os.close(fd)


def _is_free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _nodes_run(path: Path) -> bool:
    """Whether a node still has its data directory here: nodes stop a moment after their owner."""
    for lock in path.rglob(".lock"):
        with lock.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False
