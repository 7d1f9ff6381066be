"""Closes the parts of a task one after the other, whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


def close_quietly(what: str, close: Callable[[], None]) -> None:
    """Call ``close``; log an error instead of raising it, so that the other parts are closed as well."""
    try:
        close()
    except Exception:
        log.warning("cannot close %s", what, exc_info=True)
