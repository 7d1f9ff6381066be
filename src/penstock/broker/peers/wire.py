"""Encode requests and decode responses for links to other nodes."""

from __future__ import annotations

from typing import cast

from penstock.broker.peers.errors import PeerViolation
from penstock.broker.peers.link import Buffer
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import MalformedMessage, Message
from penstock.protocol.frames import CORRELATION_ID, ServedRanges, request_parts, response_in


def encode_request(request: Message, version: int, correlation_id: int, client_id: str) -> list[Buffer]:
    """Encode a whole frame, size included, in pieces to be sent one after the other."""
    return cast("list[Buffer]", request_parts(request, version, correlation_id, client_id))


def correlation_id_of(frame: memoryview) -> int:
    """Return a response's correlation id. Raises PeerViolation."""
    if len(frame) < CORRELATION_ID.size:
        raise PeerViolation(f"a response of {len(frame)} bytes, expected at least {CORRELATION_ID.size}")
    return int(CORRELATION_ID.unpack_from(frame)[0])


def decode_response(key: ApiKey, version: int, frame: memoryview) -> Message:
    """Decode the response in a frame; its records are slices of the frame. Raises PeerViolation."""
    try:
        return response_in(key, version, frame)
    except MalformedMessage as malformed:
        raise PeerViolation(f"answered {key.name} version {version}: {malformed}") from malformed


class PeerVersions(ServedRanges):
    """The API versions that a node serves, from its ApiVersions response."""

    def choose(self, key: ApiKey) -> int:
        """Choose the highest version that both sides know. Raises PeerViolation if there is none."""
        version = self.newest(key)
        if version is None:
            raise PeerViolation(self.mismatch(key, "this node"))
        return version
