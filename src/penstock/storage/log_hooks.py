"""The callbacks through which a log notifies its manager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.storage.log import Log


class LogHooks(NamedTuple):
    """The callbacks of one log. They run on the log's thread; a flush calls `io_error` in a worker too."""

    wants_flush: Callable[[Log], None] = lambda log: None
    """A segment was rolled; the manager should flush the log soon, in a worker."""
    io_error: Callable[[Log, OSError], None] = lambda log, error: None
    """A write or sync failed; `log.failure` is None if the log still accepts appends."""
    damaged: Callable[[Path, str], None] = lambda directory, reason: None
    """Recovery is about to drop records that the directory's log may have acknowledged. In any thread."""
    truncated: Callable[[Log, int], None] = lambda log, offset: None
    """Records from this offset on will be dropped: no clean may restore them, no recovery may trust them."""
