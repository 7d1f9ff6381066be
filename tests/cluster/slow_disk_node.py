"""`slow_disk_node.py ARGS` runs `penstock.cli.child ARGS` with a disk that is as slow as a file demands.

PENSTOCK_TEST_DISK names the file. It contains two numbers: the seconds by which each write and each sync are
delayed. Every call reads it again; without the file nothing is delayed.
"""

import os
import runpy
import time
from pathlib import Path

from penstock.broker.setup.environment import Environment
from penstock.storage.disk.files import FileSystem

CONTROL = Path(os.environ["PENSTOCK_TEST_DISK"])


def delays_s() -> tuple[float, float]:
    try:
        write_s, sync_s = CONTROL.read_text().split()
    except (FileNotFoundError, ValueError):  # the file does not exist or is being written
        return 0.0, 0.0
    return float(write_s), float(sync_s)


class SlowFiles(FileSystem):
    """Files whose writes and syncs block the caller, even the event loop, like a disk with a long queue."""

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
