"""Which file this is, on which mounted file system, in which run of the kernel.

What a process has written and not synced is in the memory of the kernel. It is there for the next process as
long as the machine runs and the file system stays mounted: whoever unmounts has all of it written, but hears
nothing of what could not be. So an identity changes with every restart of the machine (`boot_id`), with every
mount (the kernel makes a new directory for it in sysfs, with a number that it doesn't give twice) and with
every copy of the file (inode and its generation).

Linux, ext4 and XFS only. Elsewhere there is none: what lies behind a network may lose memory of its own, and
other file systems can be put back to an earlier state without being unmounted.
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
    """The identity of an open file as text; None where the system doesn't tell."""
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
    """The file system on a block device, as mounted now."""
    try:
        link = os.readlink(SYSFS / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}")
    except OSError:
        return None  # not on a block device of its own
    name = os.path.basename(link)
    for kind in FILE_SYSTEMS:
        try:
            return f"{kind} {name} {os.stat(SYSFS / 'fs' / kind / name).st_ino}"
        except OSError:
            continue
    return None
