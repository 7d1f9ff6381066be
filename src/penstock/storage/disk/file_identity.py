"""Identifies a file on a mounted file system in one run of the kernel.

Data that a process has written but not synced is in the kernel's memory. The next process finds it there as
long as the machine runs and the file system stays mounted: unmounting writes all of it, but does not report
what could not be written. So an identity changes with every restart of the machine (`boot_id`), with every
mount (the kernel makes a new directory for it in sysfs, whose inode number it does not use twice) and with
every copy of the file (inode and its generation).

Only ext4 and XFS on Linux provide an identity. A network file system may lose data in the memory of its
server, and other file systems can be reset to an earlier state without being unmounted.
"""

from __future__ import annotations

import array
import fcntl
import os
from pathlib import Path
from typing import Final

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
SYSFS: Final = Path("/sys")
FILE_SYSTEMS: Final = ("ext4", "xfs")
_GET_VERSION: Final = 0x80087601  # FS_IOC_GETVERSION on 64-bit machines
_INT: Final = "i"


def identity(fd: int) -> str | None:
    """The identity of an open file as text, or None if the system does not provide it."""
    try:
        status = os.fstat(fd)
        boot_id = BOOT_ID.read_text(encoding="ascii").strip()
        generation = array.array(_INT, (0, 0))
        fcntl.ioctl(fd, _GET_VERSION, generation)
    except (OSError, ValueError):
        return None
    mount = _mount_of(status.st_dev)
    if not boot_id or mount is None:
        return None
    return f"boot {boot_id} mount {mount} inode {status.st_ino} generation {generation[0] & 0xFFFFFFFF:x}"


def _mount_of(device: int) -> str | None:
    """Describe the current mount of the file system on a block device; None for all but ext4 and XFS."""
    try:
        link = os.readlink(SYSFS / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}")
    except OSError:
        return None  # the file system has no block device of its own
    name = os.path.basename(link)
    for kind in FILE_SYSTEMS:
        try:
            return f"{kind} {name} {os.stat(SYSFS / 'fs' / kind / name).st_ino}"
        except OSError:
            continue
    return None
