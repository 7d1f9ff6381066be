"""A file system that injects faults: death in any call, loss of unsynced data, torn writes, errors.

`CrashFiles` works on a real directory (put it on tmpfs) and records in memory what a disk would hold: the
content of each file as of its last sync, and the writes, truncations and directory entries since. `kill` is
the death of the process: the page cache survives. `cut_power` is the death of the machine: of the unsynced
changes, each directory keeps its entries up to some point in time, and each file keeps any mixture of old and
new pages, torn at any byte, with any of its sizes. That is weaker than what ext4 promises with its defaults,
and as weak as POSIX, with one exception: the entries of one directory are restored in order.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from penstock.storage.disk.files import FileSystem

PAGE_SIZES = (16, 64, 512, 4096)


class Died(BaseException):
    """The process is dead: no handler of the code under test may survive this exception."""


class _File:
    """The state of one file on a disk: the `durable` content and the changes since, oldest first.

    A change is (position, bytes) for a write and (size, None) for a truncation.
    """

    __slots__ = ("durable", "number", "pending")

    def __init__(self, durable: bytes) -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []
        self.number = 0
        """The number in its identity; 0 until `identity` is called."""

    def sync(self) -> None:
        _apply(self.durable, self.pending)
        self.pending.clear()

    def after_power_cut(self, rng: Random) -> bytes:
        """Choose one of the contents that a power cut may leave."""
        count = len(self.pending)
        if count == 0:
            return bytes(self.durable)
        versions = [self.content(at) for at in {0, count, rng.randrange(count + 1), rng.randrange(count + 1)}]
        size = len(rng.choice(versions))
        longest = max(map(len, versions))
        versions = [version.ljust(longest, b"\0") for version in versions]
        page_size = rng.choice(PAGE_SIZES)
        image, start = b"", 0
        while start < size:
            end = start + page_size
            if rng.random() < 0.2:
                end = start + rng.randint(1, page_size)  # torn within a page
            image += rng.choice(versions)[start:end]
            start = end
        return image[:size]

    def content(self, changes: int) -> bytes:
        """The content after the first `changes` since the last sync."""
        content = bytearray(self.durable)
        _apply(content, self.pending[:changes])
        return bytes(content)


def _apply(content: bytearray, changes: list[tuple[int, bytes | None]]) -> None:
    for position, data in changes:
        if data is None:
            del content[position:]
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        if data is not None:
            content[position : position + len(data)] = data


class _Directory:
    """A directory's entries as processes see them and as the disk holds them, and the changes between."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, _File | _Directory] = {}
        self.durable: dict[str, _File | _Directory] = {}
        self.pending: list[tuple[str, _File | _Directory | None, str]] = []
        """(name, its new target or None if it is removed, the old name if it was renamed)."""

    def change(self, name: str, node: _File | _Directory | None, renamed_from: str = "") -> None:
        self.pending.append((name, node, renamed_from))
        _change(self.entries, name, node, renamed_from)

    def sync(self) -> None:
        for change in self.pending:
            _change(self.durable, *change)
        self.pending.clear()

    def after_power_cut(self, rng: Random) -> dict[str, _File | _Directory]:
        entries = dict(self.durable)
        for change in self.pending[: rng.randrange(len(self.pending) + 1)]:
            _change(entries, *change)
        return entries


def _change(
    entries: dict[str, _File | _Directory], name: str, node: _File | _Directory | None, renamed_from: str
) -> None:
    if renamed_from:
        del entries[renamed_from]
    if node is None:
        del entries[name]
    else:
        entries[name] = node


class CrashFiles(FileSystem):
    """The file system under `root`, an empty directory.

    `rng` makes all random decisions, in the order of the calls.
    """

    def __init__(self, root: Path, rng: Random) -> None:
        self.root = root
        self._prefix = f"{root}{os.sep}"
        self.rng = rng
        self.error_rate = 0.0
        """The probability that a call fails with EIO or ENOSPC."""
        self.dies_in = -1
        """The number of calls after which the process dies in the middle of a call; -1 for never."""
        self.calls = 0
        self.dead = False
        self.on_death: Callable[[], None] = lambda: None
        """Called when `dies_in` has run out, before anything else happens."""
        self.lost_pages = False
        """Whether a sync has failed, so that its writes never reach the disk."""
        self._short_write: int | None = None
        self._identified = 0
        self._tree = _Directory()
        self._open: dict[int, _File | _Directory] = {}

    # --- faults

    def kill(self) -> None:
        """Kill the process and let the next one start: all written data is there."""
        self.dead, self.dies_in, self._short_write = False, -1, None

    def cut_power(self) -> None:
        """Cut the machine's power: the tree becomes what its disk kept."""
        self.kill()
        tree = _Directory()
        shutil.rmtree(self.root)
        self.root.mkdir()
        self._restore(self._tree, self.root, tree)
        self._tree = tree

    def _restore(self, before: _Directory, path: Path, after: _Directory) -> None:
        for name, node in before.after_power_cut(self.rng).items():
            if isinstance(node, _Directory):
                (path / name).mkdir()
                directory = after.entries[name] = after.durable[name] = _Directory()
                self._restore(node, path / name, directory)
            else:
                content = node.after_power_cut(self.rng)
                (path / name).write_bytes(content)
                after.entries[name] = after.durable[name] = _File(content)

    def replace_directory(self, name: str, *, empty: bool) -> None:
        """Reset a directory of the root to what a power cut leaves, or empty it. No process may use it."""
        path, before = self.root / name, self._tree.entries[name]
        assert isinstance(before, _Directory)
        shutil.rmtree(path)
        path.mkdir()
        after = self._tree.entries[name] = self._tree.durable[name] = _Directory()
        if not empty:
            self._restore(before, path, after)

    def damage(self, path: Path, position: int, mask: int) -> None:
        """Flip the bits in ``mask`` of one byte, on the disk and in the cache."""
        node = self._find(path)
        assert isinstance(node, _File)
        node.sync()
        node.durable[position] ^= mask
        path.write_bytes(node.durable)

    def _step(self) -> bool:
        """Count a call and return whether the process dies in it; raise OSError if the call shall fail."""
        if self.dead:
            raise Died
        self.calls += 1
        if self.dies_in >= 0:
            self.dies_in -= 1
            if self.dies_in < 0:
                self.dead = True
                self.on_death()
                return True
        if self.error_rate and self.rng.random() < self.error_rate:
            code = self.rng.choice((errno.EIO, errno.ENOSPC))
            raise OSError(code, f"{os.strerror(code)} (injected at call {self.calls})")
        return False

    def _step_or_die(self) -> None:
        """Count a call as `_step` does, for atomic calls: the process dies before or after them."""
        if self._step() and self.rng.random() < 0.5:
            raise Died

    def _after(self) -> None:
        if self.dead:
            raise Died

    # --- names

    def _relative(self, path: object) -> str:
        """A faster ``os.path.relpath``."""
        text = str(path)
        if text.startswith(self._prefix):
            return text[len(self._prefix) :]
        return os.path.relpath(text, self.root)

    def _parts(self, path: object) -> tuple[_Directory, str]:
        """The directory that holds `path`, and its name there."""
        node: _File | _Directory = self._tree
        *parents, name = self._relative(path).split(os.sep)
        for part in parents:
            assert isinstance(node, _Directory)
            if part not in node.entries:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            node = node.entries[part]
        assert isinstance(node, _Directory)
        return node, name

    def _find(self, path: object) -> _File | _Directory | None:
        if self._relative(path) == ".":
            return self._tree
        parent, name = self._parts(path)
        return parent.entries.get(name)

    # --- the calls

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:  # type: ignore[override]
        creates = bool(flags & (os.O_CREAT | os.O_TRUNC)) and flags & os.O_ACCMODE != os.O_RDONLY
        if creates:
            self._step_or_die()
        elif self._step():
            raise Died
        fd = os.open(path, flags, mode)
        node = self._find(path)
        if node is None:
            parent, name = self._parts(path)
            node = _File(b"")
            parent.change(name, node)
        elif flags & os.O_TRUNC:
            assert isinstance(node, _File)
            node.pending.append((0, None))
        self._open[fd] = node
        self._after()
        return fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        os.close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        if self._step():
            raise Died
        return os.pread(fd, size, position)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:  # type: ignore[override]
        if self._short_write is not None:
            code, self._short_write = self._short_write, None
            raise OSError(code, os.strerror(code))
        try:
            if self._step():
                self._write(fd, data[: self.rng.randrange(len(data) + 1)], position)
                raise Died
        except OSError as error:
            # As in the kernel, a short write reports its size first, and the next call raises the error.
            written = self.rng.randrange(len(data)) if self.rng.random() < 0.5 else 0
            if not written:
                raise
            self._short_write = error.errno
            return self._write(fd, data[:written], position)
        return self._write(fd, data, position)

    def _write(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        node = self._open[fd]
        assert isinstance(node, _File)
        if len(data):
            node.pending.append((position, bytes(data)))
        return os.pwrite(fd, data, position)

    def drop_clean_cache(self, fd: int) -> None:
        """Discard what a failed sync has lost from the cache too: the kernel considers these pages clean."""
        node = self._open[fd]
        assert isinstance(node, _File)
        content = node.content(len(node.pending))
        os.ftruncate(fd, len(content))
        os.pwrite(fd, content, 0)

    def ftruncate(self, fd: int, size: int) -> None:
        self._step_or_die()
        node = self._open[fd]
        assert isinstance(node, _File)
        os.ftruncate(fd, size)
        node.pending.append((size, None))
        self._after()

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        node = self._open[fd]
        try:
            self._step_or_die()
        except OSError:
            if isinstance(node, _File):
                self.lost_pages = True
                # The kernel marks pages as clean even if it could not write them (fsyncgate), so no later
                # sync writes them.
                node.durable = bytearray(node.after_power_cut(self.rng))
                node.pending.clear()
            raise
        node.sync()
        self._after()

    fdatasync = fsync  # type: ignore[assignment]

    def identity(self, fd: int) -> str | None:
        """The file's identity, which changes with a power cut, as with any restart of the machine."""
        node = self._open[fd]
        assert isinstance(node, _File)
        if not node.number:
            self._identified += 1
            node.number = self._identified
        return f"file {node.number}"

    def raise_lost_writes(self, fd: int) -> None:
        """Do nothing: no write is lost while no process runs."""

    def write_back(self, fd: int, size_bytes: int) -> None:
        """Do nothing: `after_power_cut` already assumes that pages may be written at any time."""

    def write_back_soon(self, file: object, position: int, size_bytes: int) -> None:
        """Do nothing, like `write_back`."""

    def rename(self, old: Path, new: Path) -> None:  # type: ignore[override]
        self._step_or_die()
        os.replace(old, new)
        parent, name = self._parts(old)
        new_parent, new_name = self._parts(new)
        assert parent is new_parent, "nothing is moved from directory to directory"
        parent.change(new_name, parent.entries[name], name)
        self._after()

    def unlink(self, path: Path) -> None:  # type: ignore[override]
        self._step_or_die()
        os.unlink(path)
        parent, name = self._parts(path)
        parent.change(name, None)
        self._after()

    def rmdir(self, path: Path) -> None:  # type: ignore[override]
        self._step_or_die()
        os.rmdir(path)
        parent, name = self._parts(path)
        parent.change(name, None)
        self._after()

    def mkdir(self, path: Path, mode: int = 0o777, exist_ok: bool = False) -> None:  # type: ignore[override]
        self._step_or_die()
        os.makedirs(path, mode, exist_ok)
        node: _File | _Directory = self._tree
        for name in self._relative(path).split(os.sep):
            assert isinstance(node, _Directory)
            if name not in node.entries and name != ".":
                node.change(name, _Directory())
            node = node.entries[name] if name != "." else node
        self._after()
