"""Encodes request frames, decodes response frames, and selects versions that both sides support.

It is used by the client, and by nodes that send requests to other nodes. Each of them has its own exceptions
for errors. This module uses no socket.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from penstock.protocol.api_keys import (
    ApiKey,
    api_range,
    request_header_version,
    response_class,
    response_header_version,
)
from penstock.protocol.codec import Message, Records
from penstock.protocol.messages import ApiVersionsResponse, RequestHeader, ResponseHeader

SIZE: Final = Struct(">i")
CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_AT: Final = 4
"""The position of the correlation id, after the API's key and version in all versions of the header."""


def request_parts(
    request: Message, version: int, correlation_id: int, client_id: str
) -> list[bytes | Records]:
    """Encode a whole frame, size included, as pieces to send one after the other."""
    before, after = _header_around_correlation_id(request.ID, version, client_id)
    header = before + CORRELATION_ID.pack(correlation_id) + after
    body = request.encode_parts(version)
    size_bytes = len(header) + sum(map(len, body))
    return [SIZE.pack(size_bytes) + header, *body]


@lru_cache
def _header_around_correlation_id(api_key: int, version: int, client_id: str) -> tuple[bytes, bytes]:
    """Encode the header's bytes before and after the only field that changes between requests."""
    key = ApiKey(api_key)
    header = RequestHeader(request_api_key=key, request_api_version=version, client_id=client_id).encode(
        request_header_version(key, version)
    )
    return header[:_CORRELATION_ID_AT], header[_CORRELATION_ID_AT + CORRELATION_ID.size :]


def response_in(key: ApiKey, version: int, frame: memoryview) -> Message:
    """Decode the response in a frame without its size; records are slices of it. Raises MalformedMessage."""
    _, position = ResponseHeader.decode(response_header_version(key, version), frame)
    response, _ = response_class(key).decode(version, frame, position)
    return response


class ServedRanges:
    """The versions of each API that the other side serves, from its ApiVersions response."""

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._newest: dict[ApiKey, int | None] = {}

    def serves(self, key: ApiKey) -> bool:
        return key in self._ranges

    def shared(self, key: ApiKey, lowest: int, highest: int) -> tuple[int, int] | None:
        """The versions from ``lowest`` to ``highest`` that the other side serves; None if there are none."""
        served = self._ranges.get(key)
        if served is None or max(lowest, served[0]) > min(highest, served[1]):
            return None
        return max(lowest, served[0]), min(highest, served[1])

    def newest(self, key: ApiKey) -> int | None:
        """The highest version that both sides support; None if there is none."""
        if key not in self._newest:
            shared = self.shared(key, *api_range(key))
            self._newest[key] = None if shared is None else shared[1]
        return self._newest[key]

    def mismatch(self, key: ApiKey, here: str) -> str:
        """Explain why there is no shared version with ``here``, as the predicate of an error message."""
        served = self._ranges.get(key)
        if served is None:
            return f"does not serve {key.name}"
        lowest, highest = api_range(key)
        return (
            f"serves {key.name} in versions {served[0]} to {served[1]}, {here} speaks {lowest} to {highest}"
        )
