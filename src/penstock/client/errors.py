"""The client's exceptions, and whether a retry can help."""

from __future__ import annotations

from typing import Final

from penstock.errors import PenstockError
from penstock.protocol.errors import ErrorCode

_CODES: Final = {int(code): code for code in ErrorCode}


class ClientError(PenstockError):
    """Base of every exception of the client. ``retriable`` says that the same call may succeed later."""

    retriable = False


class ServerUnreachable(ClientError):
    """The client could not connect, or the connection broke: requests in flight have an unknown outcome."""

    retriable = True


class NothingListens(ServerUnreachable):
    """Every known address refuses connections, or its host has no address."""


class AuthenticationFailed(ClientError):
    """Client or server rejects the other: a certificate, a host name, a password or a mechanism is wrong."""


class RequestTimedOut(ServerUnreachable):
    """No complete response arrived within ``request.timeout.ms``; the connection is closed."""


class ProtocolViolation(ClientError):
    """The server's bytes are no valid response: wrong correlation id, size or content."""


class UnsupportedByServer(ClientError):
    """The server does not serve this API in any version that this client supports."""


class ServerError(ClientError):
    """The server answered with an error code."""

    detail: str | None = None
    """The server's own reason; None if it sent nothing beyond the code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = code.retriable


class UnknownPartition(ServerError):
    """The cluster's own metadata has no such topic or partition. The caller decides whether to retry."""

    def __init__(self, topic: str, partition: int | None, servers: str, *, retriable: bool = False) -> None:
        what = f"topic '{topic}'" if partition is None else f"partition {topic}-{partition}"
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what} does not exist in the cluster at {servers}"
        )
        self.topic = topic
        self.partition = partition
        self.retriable = retriable


class OffsetOutOfRange(ServerError):
    """The log does not hold this offset: it is deleted already or not written yet."""

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

    batch: int | None = None
    """The record's batch: how many others a `Producer` was given before it."""


class DeliveryFailed(ClientError):
    """Records were not acknowledged: a retry cannot help, or the delivery timeout has passed."""

    batch: int | None = None
    """The batch that a broker refused for good: how many others a `Producer` was given before it."""

    missing: UnknownPartition | None = None
    """The topic or partition that does not exist (any more); batches of others can be sent again."""


class GroupInUse(ClientError):
    """The group has live members: two committers of offsets would each undo the other's commits."""


class TransactionLost(ServerError):
    """This producer's transaction is over: it timed out, or another producer took over its id."""


def error_from(code: int, where: str, detail: str | None = None) -> ServerError:
    """The exception for an error code in a response; ``where`` names server, topic and partition."""
    known = _CODES.get(code)
    if known is None:
        return ServerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{where}: error code {code}, unknown to this client"
        )
    error = ServerError(known, f"{where}: {known.name}: {detail or known.default_message}")
    if detail and detail != known.default_message:
        error.detail = detail
    return error
