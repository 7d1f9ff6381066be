"""Servers that answer a node's requests as a test wants, and channels to them."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from penstock.broker.peers import ControllerAddress, ControllerChannel
from penstock.broker.peers.tcp import TcpDial
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import ApiVersionsResponse

RNG = random.Random(5)
HANDLED = dict.fromkeys([ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.BROKER_HEARTBEAT], (0, 0))

Serve = Callable[[int, int, bytes], Awaitable[bytes | None]]
"""(api key, correlation id, frame) → the response's frame without its size, or None for no response."""


@asynccontextmanager
async def server(serve: Serve, served: Mapping[ApiKey, tuple[int, int]] = HANDLED) -> AsyncIterator[int]:
    """A server that answers ApiVersions in version 0, as an old one, the rest by ``serve``; its port."""

    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                if key == ApiKey.API_VERSIONS:
                    answer: bytes | None = struct.pack(">i", correlation_id) + api_versions(version, served)
                else:
                    answer = await serve(key, correlation_id, frame)
                if answer is not None:
                    writer.write(struct.pack(">i", len(answer)) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]
        for writer in writers:
            writer.close()


def api_versions(asked: int, served: Mapping[ApiKey, tuple[int, int]]) -> bytes:
    """Answer as a server that supports only version 0 (KIP-511)."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        for key, (lowest, highest) in served.items()
    ]
    error = ErrorCode.UNSUPPORTED_VERSION if asked else ErrorCode.NONE
    return ApiVersionsResponse(error_code=error, api_keys=keys).encode(0)


def channel_to(
    leader: Callable[[], ControllerAddress | None],
    here: Callable[[Message], Awaitable[Message]] | None = None,
    attempt_timeout_ms: float = 300,
) -> ControllerChannel:
    async def not_here(_request: Message) -> Message:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    return ControllerChannel(
        1,
        TcpDial(),
        leader,
        here or not_here,
        client_id="test",
        rng=RNG,
        attempt_timeout_ms=attempt_timeout_ms,
    )
