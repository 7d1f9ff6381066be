"""The APIs that a listener serves, and their limits on the size of requests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from penstock.broker.network.answers import Handler
    from penstock.broker.network.context import RequestContext
    from penstock.broker.network.stats import ApiStats

PLAIN_REQUEST_BYTES_MAX = 1024 * 1024
"""The limit for requests that contain neither records nor a group's own bytes. Kafka allows 100 MB, which
would be millions of elements to decode, check and answer one by one while the event loop stands still."""

REQUEST_BYTES_MAX = {
    ApiKey.PRODUCE: sys.maxsize,
    ApiKey.JOIN_GROUP: sys.maxsize,
    ApiKey.SYNC_GROUP: sys.maxsize,
    ApiKey.ENVELOPE: PLAIN_REQUEST_BYTES_MAX + 64 * 1024,
}
"""Exceptions: a group's bytes are opaque, and an envelope holds a request that was already accepted."""

LONG_REQUEST_BYTES = 16 * 1024
"""Larger requests are decoded over several turns of the loop; responses of asynchronous handlers are encoded
so too. Produce is exempt, because its bytes are batches."""


class ServedApi(NamedTuple):
    """An API in the table of a listener."""

    part: object
    """The part of the node that the handler takes."""
    handle: Handler
    versions: tuple[int, int]
    """The lowest and highest version served."""
    advertised: tuple[int, int]
    """The versions that ApiVersions lists."""
    is_exempt: Callable[[Any, RequestContext], bool] | None = None
    """Whether a request is exempt from quotas. Without it, none is."""


class Served:
    """One API in one version, with everything that the hot path would otherwise look up."""

    __slots__ = (
        "api_key",
        "decode",
        "decode_in_steps",
        "flexible_request",
        "flexible_response",
        "handle",
        "has_records",
        "is_exempt",
        "long_request_bytes",
        "part",
        "request_bytes_max",
        "response_class",
        "stats",
        "version",
    )

    def __init__(self, api_key: ApiKey, version: int, api: ServedApi, stats: ApiStats) -> None:
        self.api_key = api_key
        self.version = version
        self.part = api.part
        self.handle = api.handle
        self.stats = stats
        request_class = api_keys.request_class(api_key)
        self.decode = request_class.decode
        self.decode_in_steps = request_class.decode_in_steps
        self.long_request_bytes = sys.maxsize if api_key is ApiKey.PRODUCE else LONG_REQUEST_BYTES
        self.response_class = api_keys.response_class(api_key)
        self.flexible_request = api_keys.request_header_version(api_key, version) >= 2
        self.flexible_response = api_keys.response_header_version(api_key, version) >= 1
        self.has_records = api_key is ApiKey.FETCH
        self.request_bytes_max = REQUEST_BYTES_MAX.get(api_key, PLAIN_REQUEST_BYTES_MAX)
        self.is_exempt = api.is_exempt
