"""The log of requests that a handler refuses as a whole."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.protocol.errors import KafkaError

log = logging.getLogger(__name__)

FAULTS: Final = frozenset(
    {ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION}
)
"""Errors that point to a mistake in a client or in the broker; all others occur in normal operation."""


def log_refusal(api: str, version: int, client_id: str, error: KafkaError) -> None:
    """Log a refused request: at INFO for one of `FAULTS`, else at DEBUG."""
    log.log(
        logging.INFO if error.code in FAULTS else logging.DEBUG,
        "request refused api=%s version=%d client_id=%s error=%s reason=%s",
        api,
        version,
        client_id,
        error.code.name,
        error.message,
    )
