"""The machine on which a node runs: clock, randomness, disk, threads and listening sockets.

The node gets all of these from here, so that a simulator can run real nodes on simulated machines. The event
loop provides elapsed time and timers.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock.broker.network.server import ServerLimits, bound_socket
from penstock.broker.peers.tcp import TcpDial
from penstock.storage.directories.background_work import threads
from penstock.storage.disk.files import REAL_FILES, FileSystem

if TYPE_CHECKING:
    import socket

    from penstock.broker.peers import Dial
    from penstock.metadata.configs import Listener


class Environment:
    """The real machine. A substitute overrides any of its parts."""

    files: FileSystem = REAL_FILES
    rng: random.Random
    sendfile: Callable[[int, int, int, int], int] = staticmethod(os.sendfile)
    """(socket, file, position, count) → bytes sent. Raises OSError."""
    log_workers: Callable[[int], Executor] = staticmethod(threads)
    """Creates a thread pool of the given size for a log manager."""

    def __init__(self) -> None:
        self.rng = random.SystemRandom()  # session ids must not be predictable
        self.dial: Dial = TcpDial()

    def clock_ms(self) -> int:
        """The wall clock's time, for records and leases."""
        return time.time_ns() // 1_000_000

    def uuid(self) -> uuid.UUID:
        """Create a random UUID (version 4)."""
        return uuid.UUID(int=self.rng.getrandbits(128), version=4)

    def workers(self, count: int, name: str) -> Executor:
        """Create a thread pool for blocking work; it starts threads only when they are needed."""
        return ThreadPoolExecutor(max(1, count), thread_name_prefix=name)

    def bind(self, listener: Listener, limits: ServerLimits) -> socket.socket:
        """Create a socket that is bound to the address and does not listen yet.

        Raises OSError, which names the address.
        """
        return bound_socket(listener, limits)
