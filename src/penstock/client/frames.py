"""Requests to bytes and bytes to responses: the wire without a socket."""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.client.errors import ProtocolViolation, UnsupportedByServer
from penstock.protocol.api_keys import (
    ApiKey,
    api_range,
    request_header_version,
    response_class,
    response_header_version,
)
from penstock.protocol.batch import Buffer
from penstock.protocol.codec import MalformedMessage, Message, Records
from penstock.protocol.messages import ApiVersionsResponse, RequestHeader, ResponseHeader

SIZE: Final = Struct(">i")
CORRELATION_ID: Final = Struct(">i")


class RecordBytes:
    """Record batches that go from their buffer to the socket without being copied into a request."""

    __slots__ = ("data",)

    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data)

    def __len__(self) -> int:
        return self.data.nbytes


def encode_request(request: Message, version: int, correlation_id: int, client_id: str) -> list[Buffer]:
    """A whole frame, size included, as the buffers to send one after the other."""
    key = ApiKey(request.ID)
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    ).encode(request_header_version(key, version))
    body = [_buffer(part) for part in request.encode_parts(version)]
    size = len(header) + sum(len(part) for part in body)
    return [SIZE.pack(size) + header, *body]


def _buffer(part: bytes | Records) -> Buffer:
    if isinstance(part, RecordBytes):
        return part.data
    assert isinstance(part, bytes)
    return part


def decode_response(
    key: ApiKey, version: int, correlation_id: int, frame: memoryview, server: str
) -> Message:
    """The response in a frame (without its size); record fields are slices of ``frame``."""
    if len(frame) < CORRELATION_ID.size:
        raise ProtocolViolation(f"{server} answered {key.name} with {len(frame)} bytes, expected at least 4")
    (found,) = CORRELATION_ID.unpack_from(frame)
    if found != correlation_id:
        raise ProtocolViolation(
            f"{server} answered {key.name} with correlation id {found}, expected {correlation_id}"
        )
    try:
        _, position = ResponseHeader.decode(response_header_version(key, version), frame)
        response, _ = response_class(key).decode(version, frame, position)
    except MalformedMessage as malformed:
        raise ProtocolViolation(f"{server} answered {key.name} version {version}: {malformed}") from malformed
    return response


class ServedVersions:
    """What a server says it serves, from its ApiVersions response."""

    def __init__(self, response: ApiVersionsResponse, server: str) -> None:
        self._ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._finalized = {f.name: f.max_version_level for f in response.finalized_features}
        self._server = server

    def finalized(self, feature: str) -> int:
        """The level of a cluster feature (KIP-584) when this was asked; 0 where there is none."""
        return self._finalized.get(feature, 0)

    def choose(self, key: ApiKey) -> int:
        """The highest version that both sides know."""
        lowest, highest = api_range(key)
        served = self._ranges.get(key)
        if served is None:
            raise UnsupportedByServer(f"{self._server} does not serve {key.name}")
        version = min(highest, served[1])
        if version < max(lowest, served[0]):
            raise UnsupportedByServer(
                f"{self._server} serves {key.name} in versions {served[0]} to {served[1]}, "
                f"this client speaks {lowest} to {highest}"
            )
        return version

    def serves(self, key: ApiKey) -> bool:
        return key in self._ranges
