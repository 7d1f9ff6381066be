"""What can go wrong between this client and a server, and whether trying again can help."""

from __future__ import annotations

from typing import Final

from penstock.protocol.errors import ErrorCode

_CODES: Final = {int(code): code for code in ErrorCode}


class ClientError(Exception):
    """Base of everything the client raises. ``retriable`` says that the same call may succeed later."""

    retriable = False


class ServerUnreachable(ClientError):
    """No connection, or the connection broke: the outcome of requests in flight is unknown."""

    retriable = True


class AuthenticationFailed(ClientError):
    """Client and server don't accept each other: a certificate, a name, a password or a mechanism."""


class RequestTimedOut(ServerUnreachable):
    """No complete response within ``request.timeout.ms``; the connection is closed."""


class ProtocolViolation(ClientError):
    """The server's bytes are no answer to what was asked: wrong correlation id, size or content."""


class UnsupportedByServer(ClientError):
    """The server does not serve this API in any version that this client speaks."""


class ServerError(ClientError):
    """The server answered with an error code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = code.retriable


class UnknownPartition(ServerError):
    """The cluster's own metadata knows no such topic or partition, so asking again is up to the caller."""

    def __init__(self, topic: str, partition: int | None, servers: str, *, retriable: bool = False) -> None:
        what = f"topic '{topic}'" if partition is None else f"partition {topic}-{partition}"
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what} does not exist in the cluster at {servers}"
        )
        self.topic = topic
        self.partition = partition
        self.retriable = retriable


class OffsetOutOfRange(ServerError):
    """The log holds nothing at this offset (any more, or yet)."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {topic}-{partition} is outside the offsets its leader holds",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class RecordTooLarge(ClientError):
    """A single record is larger than ``max.request.size`` or the topic's ``max.message.bytes``."""


class DeliveryFailed(ClientError):
    """Records were not acknowledged, and trying on would not help or took longer than allowed."""


class TransactionLost(ServerError):
    """The transaction is over for this producer: its time was up, or somebody else has taken its id."""


def error_from(code: int, where: str, detail: str | None = None) -> ServerError:
    """The exception for a code in a response; ``where`` names server, topic and partition."""
    known = _CODES.get(code)
    if known is None:
        return ServerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{where}: error code {code}, unknown to this client"
        )
    return ServerError(known, f"{where}: {known.name}: {detail or known.default_message}")
