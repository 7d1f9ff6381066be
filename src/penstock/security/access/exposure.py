"""The warning of listeners that other machines reach without authentication."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence

log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener, as far as its host says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def warn_unless_guarded(scheme: str, host: str, port: int, *, is_guarded: bool) -> None:
    """Log one line if a listener with this address lets everybody in who reaches it from other machines."""
    if not is_guarded and not is_loopback(host):
        warn_of_open_listeners([f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"])


def warn_of_open_listeners(listeners: Sequence[str]) -> None:
    """Log one line that names these listeners, if there are any."""
    if listeners:
        log.warning("clients are not authenticated listeners=%s remedy=docs/security.md", ",".join(listeners))
