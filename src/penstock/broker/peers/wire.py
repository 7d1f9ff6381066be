"""Requests to bytes and bytes to responses, for links to other nodes."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final, cast

from penstock.broker.peers.errors import PeerViolation
from penstock.broker.peers.link import Buffer
from penstock.protocol.api_keys import (
    ApiKey,
    api_range,
    request_header_version,
    response_class,
    response_header_version,
)
from penstock.protocol.codec import MalformedMessage, Message
from penstock.protocol.messages import ApiVersionsResponse, RequestHeader, ResponseHeader

_SIZE: Final = Struct(">i")
_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_AT: Final = 4
"""Behind the key and the version of the API, in all versions of the header."""


def encode_request(request: Message, version: int, correlation_id: int, client_id: str) -> list[Buffer]:
    """A whole frame, size included, in pieces to be sent one after the other."""
    before, after = _header_around_correlation_id(request.ID, version, client_id)
    header = before + _CORRELATION_ID.pack(correlation_id) + after
    body = cast("list[Buffer]", request.encode_parts(version))
    size_bytes = len(header) + sum(map(len, body))
    return [_SIZE.pack(size_bytes) + header, *body]


@lru_cache
def _header_around_correlation_id(api_key: int, version: int, client_id: str) -> tuple[bytes, bytes]:
    """The header's bytes before and after the one field that changes from request to request."""
    key = ApiKey(api_key)
    header = RequestHeader(request_api_key=key, request_api_version=version, client_id=client_id).encode(
        request_header_version(key, version)
    )
    return header[:_CORRELATION_ID_AT], header[_CORRELATION_ID_AT + _CORRELATION_ID.size :]


def correlation_id_of(frame: memoryview) -> int:
    """The id that a response bears. Raises PeerViolation."""
    if len(frame) < _CORRELATION_ID.size:
        raise PeerViolation(f"a response of {len(frame)} bytes, expected at least {_CORRELATION_ID.size}")
    return int(_CORRELATION_ID.unpack_from(frame)[0])


def decode_response(key: ApiKey, version: int, frame: memoryview) -> Message:
    """The response in a frame; its records are slices of the frame. Raises PeerViolation."""
    try:
        _, position = ResponseHeader.decode(response_header_version(key, version), frame)
        response, _ = response_class(key).decode(version, frame, position)
    except MalformedMessage as malformed:
        raise PeerViolation(f"answered {key.name} version {version}: {malformed}") from malformed
    return response


class PeerVersions:
    """What a node serves, from its ApiVersions response."""

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def choose(self, key: ApiKey) -> int:
        """The highest version that both sides know. Raises PeerViolation where there is none."""
        lowest, highest = api_range(key)
        served = self._ranges.get(key)
        if served is None:
            raise PeerViolation(f"does not serve {key.name}")
        shared = self.shared(key, lowest, highest)
        if shared is None:
            raise PeerViolation(
                f"serves {key.name} in versions {served[0]} to {served[1]}, "
                f"this node speaks {lowest} to {highest}"
            )
        return shared[1]

    def serves(self, key: ApiKey) -> bool:
        return key in self._ranges

    def shared(self, key: ApiKey, lowest: int, highest: int) -> tuple[int, int] | None:
        """The versions from ``lowest`` to ``highest`` that the node serves too; None where there is none."""
        served = self._ranges.get(key)
        if served is None or max(lowest, served[0]) > min(highest, served[1]):
            return None
        return max(lowest, served[0]), min(highest, served[1])
