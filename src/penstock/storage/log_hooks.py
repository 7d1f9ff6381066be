"""What a log tells its manager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.storage.log import Log


class LogHooks(NamedTuple):
    """Called on the thread that owns the log, `io_error` also by a flush in a worker."""

    wants_flush: Callable[[Log], None] = lambda log: None
    """A segment was rolled: flush soon, in a worker."""
    io_error: Callable[[Log, OSError], None] = lambda log, error: None
    """A write or sync failed; `log.failure` tells whether the log still takes appends."""
    damaged: Callable[[Path, str], None] = lambda directory, reason: None
    """Recovery is about to drop what the log in this directory may have acknowledged; in any thread."""
    truncated: Callable[[Log, int], None] = lambda log, offset: None
    """Records from this offset on are about to go: no clean may bring them back, no recovery trust them."""
