"""A real ext4 on a disk that runs full, for a test in its own mount namespace; see `main`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.storage.disk.files import REAL_FILES

BACKING_MIB = 6
IMAGE_MIB = 64
MIB = 1 << 20


def run(*command: object) -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.strip()


def identity(path: Path) -> str | None:
    fd = os.open(path, os.O_RDONLY)
    try:
        return REAL_FILES.identity(fd)
    finally:
        os.close(fd)


def lost_write(path: Path) -> str | None:
    """The error that a process gets when it opens the file again."""
    fd = os.open(path, os.O_RDWR)
    try:
        REAL_FILES.raise_lost_writes(fd)
    except OSError as error:
        return str(error)
    finally:
        os.close(fd)
    return None


def main(root: Path) -> None:
    """Print identities before and after a mount, and the errors of writes that no process waited for."""
    backing, mounted = root / "backing", root / "mounted"
    backing.mkdir()
    mounted.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={BACKING_MIB}M", "none", backing)
    os.truncate(os.open(backing / "image", os.O_RDWR | os.O_CREAT), IMAGE_MIB * MIB)
    device = run("losetup", "-f", "--show", backing / "image")
    try:
        run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "nodiscard", device)
        run("mount", device, mounted)
        path = mounted / "file"
        path.write_bytes(bytes(MIB))
        os.sync()
        found: dict[str, object] = {"before": lost_write(path), "identities": [identity(path)]}
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, b"x" * (20 * MIB), MIB)
        os.close(fd)
        # as the kernel does after a while, piece by piece to the end, without reporting errors here
        os.sync()
        found |= {"told": lost_write(path), "again": lost_write(path)}
        run("umount", mounted)
        run("mount", device, mounted)
        found["identities"] += [identity(path)]  # type: ignore[operator]
        run("umount", mounted)
        print(json.dumps(found))
    finally:
        run("losetup", "-d", device)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
