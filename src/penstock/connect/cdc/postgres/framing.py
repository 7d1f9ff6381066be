"""The frames of PostgreSQL's streaming replication protocol inside CopyData messages. Pure.

The server sends XLogData ('w') and keepalives ('k'); the client answers with standby status updates ('r').
Log sequence numbers (LSNs) are ints here; their text is ``16/B374D848``. Times of the wire are microseconds
since 2000-01-01, and become microseconds since 1970.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from penstock.connect.errors import ReplicationProtocolError

POSTGRES_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970."""

_XLOG_DATA: Final = struct.Struct(">cQQq")
_KEEPALIVE: Final = struct.Struct(">cQqB")
_STATUS: Final = struct.Struct(">cQQQqB")


class XLogData(NamedTuple):
    """A part of the stream: one message of the output plugin, which `start` locates in the WAL."""

    start: int
    end: int
    sent_us: int
    payload: memoryview


class Keepalive(NamedTuple):
    """The end of the server's WAL; a reply is due at once if `reply_requested`."""

    end: int
    sent_us: int
    reply_requested: bool


def read_frame(data: bytes) -> XLogData | Keepalive:
    """Read the content of one CopyData message. Raises ReplicationProtocolError."""
    kind = data[:1]
    if kind == b"w" and len(data) >= _XLOG_DATA.size:
        _, start, end, sent = _XLOG_DATA.unpack_from(data)
        return XLogData(start, end, sent + POSTGRES_EPOCH_US, memoryview(data)[_XLOG_DATA.size :])
    if kind == b"k" and len(data) == _KEEPALIVE.size:
        _, end, sent, reply = _KEEPALIVE.unpack(data)
        return Keepalive(end, sent + POSTGRES_EPOCH_US, reply != 0)
    raise ReplicationProtocolError(
        f"a replication frame begins with {kind!r} and has {len(data)} bytes; "
        "expected 'w' with at least 25 bytes, or 'k' with 18"
    )


def status_update(received: int, flushed: int, now_us: int, reply_requested: bool = False) -> bytes:
    """Confirm WAL up to ``flushed``; the server may then discard it.

    ``received`` is the end of what was read. Both are positions after the last byte. ``now_us`` is the
    client's time in microseconds since 1970.
    """
    return _STATUS.pack(b"r", received, flushed, flushed, now_us - POSTGRES_EPOCH_US, reply_requested)


def format_lsn(lsn: int) -> str:
    """The text of an LSN, such as ``16/B374D848``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """The LSN of a text such as ``16/B374D848``. Raises ValueError."""
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not an LSN; expected two hexadecimal numbers such as 16/B374D848")
    return int(high, 16) << 32 | int(low, 16)
