"""`slow_disk_node.py ARGS` is `penstock.cli.child ARGS` where the disk is as slow as a file says.

PENSTOCK_TEST_DISK names the file. It holds two numbers, the seconds that each write and each sync take
longer. What it holds at the moment counts; without it the disk is as fast as it is.
"""

import os
import runpy
import time
from pathlib import Path

from penstock.broker.environment import Environment
from penstock.storage.files import FileSystem

CONTROL = Path(os.environ["PENSTOCK_TEST_DISK"])


def delays_s() -> tuple[float, float]:
    try:
        write_s, sync_s = CONTROL.read_text().split()
    except (FileNotFoundError, ValueError):  # there is none, or it is just being written
        return 0.0, 0.0
    return float(write_s), float(sync_s)


class SlowFiles(FileSystem):
    """Whoever writes or syncs waits, as for a disk with a long queue: the event loop too where it does."""

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int, /) -> int:
        time.sleep(delays_s()[0])
        return os.pwrite(fd, data, position)

    def fsync(self, fd: int, /) -> None:
        time.sleep(delays_s()[1])
        os.fsync(fd)

    def fdatasync(self, fd: int, /) -> None:
        time.sleep(delays_s()[1])
        os.fdatasync(fd)


if __name__ == "__main__":
    Environment.files = SlowFiles()
    runpy.run_module("penstock.cli.child", run_name="__main__")
