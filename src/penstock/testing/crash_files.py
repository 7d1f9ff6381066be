"""A file system that fails as real ones do: it dies at any call, loses what was not synced, tears, errs.

`CrashFiles` works on a real directory (put it on tmpfs), and remembers beside it what a disk would hold: the
content of each file as of its last sync, and the writes, truncations and directory entries since. `kill` is
the death of the process: the page cache survives. `cut_power` is the death of the machine: of what was not
synced, each directory keeps its entries up to some point in time, and each file any mixture of old and new
pages, torn at any byte, with any of its sizes. That is less than ext4 promises with its defaults, and no more
than POSIX does, but for one thing: the entries of one directory come back in order.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from penstock.storage.files import FileSystem

PAGE_SIZES = (16, 64, 512, 4096)


class Died(BaseException):
    """The process is dead: no handler of the code under test may survive it."""


class _File:
    """What a disk holds of one file: `durable`, and the changes since, oldest first.

    A change is (position, bytes) for a write and (size, None) for a truncation.
    """

    __slots__ = ("durable", "number", "pending")

    def __init__(self, durable: bytes) -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []
        self.number = 0
        """Its identity, once somebody has asked for that."""

    def sync(self) -> None:
        _apply(self.durable, self.pending)
        self.pending.clear()

    def after_power_cut(self, rng: Random) -> bytes:
        """One of the contents that a disk may be left with."""
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
    """Entries as processes see them, as the disk holds them, and the changes in between."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, _File | _Directory] = {}
        self.durable: dict[str, _File | _Directory] = {}
        self.pending: list[tuple[str, _File | _Directory | None, str]] = []
        """(name, what it means now or None for nothing, the name that a rename took away)."""

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
    """`root` exists and is empty. `rng` decides all that chance does, in the order of the calls."""

    def __init__(self, root: Path, rng: Random) -> None:
        self.root = root
        self._prefix = f"{root}{os.sep}"
        self.rng = rng
        self.error_rate = 0.0
        """How often a call fails with EIO or ENOSPC."""
        self.dies_in = -1
        """Calls after which the process dies in the middle of one; -1 for never."""
        self.calls = 0
        self.dead = False
        self.on_death: Callable[[], None] = lambda: None
        """Called when `dies_in` is over, before anything else happens."""
        self.lost_pages = False
        """Whether a sync has failed: what it was to write is on no disk, whatever comes later."""
        self._short_write: int | None = None
        self._identified = 0
        self._tree = _Directory()
        self._open: dict[int, _File | _Directory] = {}

    # --- faults

    def kill(self) -> None:
        """The process is gone, and the next one starts: whatever was written is there."""
        self.dead, self.dies_in, self._short_write = False, -1, None

    def cut_power(self) -> None:
        """The machine is gone: the tree is now what its disk was left with."""
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
        """A directory of the root is as on a disk that lost power, or empty. Nobody uses it."""
        path, before = self.root / name, self._tree.entries[name]
        assert isinstance(before, _Directory)
        shutil.rmtree(path)
        path.mkdir()
        after = self._tree.entries[name] = self._tree.durable[name] = _Directory()
        if not empty:
            self._restore(before, path, after)

    def damage(self, path: Path, position: int, mask: int) -> None:
        """Flip bits of one byte, on the disk and in the cache."""
        node = self._find(path)
        assert isinstance(node, _File)
        node.sync()
        node.durable[position] ^= mask
        path.write_bytes(node.durable)

    def _step(self) -> bool:
        """Count a call. Returns whether the process dies in it; raises what makes it fail."""
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
        """As `_step`, for calls that happen or don't: death comes on either side of them."""
        if self._step() and self.rng.random() < 0.5:
            raise Died

    def _after(self) -> None:
        if self.dead:
            raise Died

    # --- names

    def _relative(self, path: object) -> str:
        """As os.path.relpath, which takes its time."""
        text = str(path)
        if text.startswith(self._prefix):
            return text[len(self._prefix) :]
        return os.path.relpath(text, self.root)

    def _parts(self, path: object) -> tuple[_Directory, str]:
        """The directory that `path` lies in, and its name there."""
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
            # as the kernel: what could be written is told first, the error by the next call
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
        """What a failed sync has lost is gone from the cache too, as pages nobody has to write."""
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
                # the kernel takes pages for clean that it could not write (fsyncgate): no later sync does it
                node.durable = bytearray(node.after_power_cut(self.rng))
                node.pending.clear()
            raise
        node.sync()
        self._after()

    fdatasync = fsync  # type: ignore[assignment]

    def identity(self, fd: int) -> str | None:
        """Another one for the same file after a power cut, as after any restart of the machine."""
        node = self._open[fd]
        assert isinstance(node, _File)
        if not node.number:
            self._identified += 1
            node.number = self._identified
        return f"file {node.number}"

    def raise_lost_writes(self, fd: int) -> None:
        """None is lost while no process runs."""

    def write_back(self, fd: int, size_bytes: int) -> None:
        """Pages may be written at any time: that is in `after_power_cut` already."""

    def write_back_soon(self, file: object, position: int, size_bytes: int) -> None:
        """As `write_back`."""

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
