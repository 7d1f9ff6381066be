"""Messages to the service manager that started this process, such as systemd (sd_notify(3))."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_ADDRESS: Final = "NOTIFY_SOCKET"


class ServiceManager:
    """The service manager of this process. Without one, nothing is sent.

    It is made before any child process starts, and children do not inherit its address: they would report
    their own state as that of the service.
    """

    def __init__(self) -> None:
        address = os.environ.pop(_ADDRESS, "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def notify(self, state: str) -> None:
        """Send a state. A manager that cannot be reached does not stop the service."""
        if self._address:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.sendto(state.encode(), self._address)
