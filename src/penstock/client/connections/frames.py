"""Encode requests to bytes and decode responses, without a socket."""

from __future__ import annotations

from penstock.client.errors import ProtocolViolation, UnsupportedByServer
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.batch import Buffer
from penstock.protocol.codec import MalformedMessage, Message, Records
from penstock.protocol.frames import CORRELATION_ID, ServedRanges, request_parts, response_in
from penstock.protocol.messages import ApiVersionsResponse


class RecordBytes:
    """Record batches that are sent from their own buffer, without a copy into the request."""

    __slots__ = ("data",)

    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data)

    def __len__(self) -> int:
        return self.data.nbytes


def encode_request(request: Message, version: int, correlation_id: int, client_id: str) -> list[Buffer]:
    """Encode a whole frame, size included, as the buffers to send one after the other."""
    return [_buffer(part) for part in request_parts(request, version, correlation_id, client_id)]


def _buffer(part: bytes | Records) -> Buffer:
    if isinstance(part, RecordBytes):
        return part.data
    assert isinstance(part, bytes)
    return part


def decode_response(
    key: ApiKey, version: int, correlation_id: int, frame: memoryview, server: str
) -> Message:
    """Decode the response in a frame (without its size); record fields are slices of ``frame``."""
    if len(frame) < CORRELATION_ID.size:
        raise ProtocolViolation(f"{server} answered {key.name} with {len(frame)} bytes, expected at least 4")
    (found,) = CORRELATION_ID.unpack_from(frame)
    if found != correlation_id:
        raise ProtocolViolation(
            f"{server} answered {key.name} with correlation id {found}, expected {correlation_id}"
        )
    try:
        return response_in(key, version, frame)
    except MalformedMessage as malformed:
        raise ProtocolViolation(f"{server} answered {key.name} version {version}: {malformed}") from malformed


class ServedVersions(ServedRanges):
    """The API versions and features that a server reports in its ApiVersions response."""

    def __init__(self, response: ApiVersionsResponse, server: str) -> None:
        super().__init__(response)
        self._finalized = {f.name: f.max_version_level for f in response.finalized_features}
        self._server = server

    def finalized(self, feature: str) -> int:
        """The level of a cluster feature (KIP-584) at the time of the response; 0 if it is not finalized."""
        return self._finalized.get(feature, 0)

    def choose(self, key: ApiKey) -> int:
        """The highest version that both sides know. Raises UnsupportedByServer if there is none."""
        version = self.newest(key)
        if version is None:
            raise UnsupportedByServer(f"{self._server} {self.mismatch(key, 'this client')}")
        return version
