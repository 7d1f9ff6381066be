"""Decodes pgoutput, PostgreSQL's output plugin for logical replication, in protocol versions 1 to 4. Pure.

Version 2 streams large transactions in blocks while they are in progress. Between stream start and stop, most
messages carry the id of their (sub)transaction, so the decoder remembers whether a block is open. Version 3
adds two-phase commit, which is not supported: its messages raise an error. Version 4 adds position and time
to stream aborts if the slot was started with ``streaming 'parallel'``.

See "Logical Replication Message Formats" in PostgreSQL's manual.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from penstock.connect.cdc.postgres.framing import POSTGRES_EPOCH_US, format_lsn
from penstock.connect.cdc.postgres.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    RelationColumn,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    TypeName,
    Update,
)
from penstock.connect.errors import ReplicationProtocolError


class Unchanged(Enum):
    """The mark of a value stored out of line that an update did not change and the server did not send."""

    TOAST = "unchanged"


class BinaryValue(bytes):
    """A value in its type's binary format, from a slot that was started with ``binary 'true'``."""


Column = str | BinaryValue | Unchanged | None
"""A column of a tuple: its text, its binary form, null, or the mark of an unchanged value."""

_TEXT, _BINARY, _NULL, _UNCHANGED = b"tbnu"
"""The kinds of columns in a tuple."""

_BEGIN: Final = struct.Struct(">BQqI")
_COMMIT: Final = struct.Struct(">BBQQq")
_BEGIN_KIND, _COMMIT_KIND = b"BC"
_TWO_PHASE: Final = {
    "b": "begin prepare",
    "P": "prepare",
    "K": "commit prepared",
    "r": "rollback prepared",
    "p": "stream prepare",
}


class Decoder:
    """Decodes the messages of one replication stream, in their order."""

    def __init__(self, version: int = 1) -> None:
        """Expect this protocol version, which the slot was started with."""
        if not 1 <= version <= 4:
            raise ValueError(f"pgoutput's protocol version {version} is unknown; expected 1 to 4")
        self._version = version
        self._in_stream = False

    def decode(self, payload: bytes | memoryview, lsn: int = 0) -> Message:
        """Decode one message. ``lsn`` is its position, for errors. Raises ReplicationProtocolError."""
        data = bytes(payload)
        if len(data) == _BEGIN.size and data[0] == _BEGIN_KIND:  # each transaction has them, however small
            _, commit_lsn, time, xid = _BEGIN.unpack(data)
            return Begin(commit_lsn, time + POSTGRES_EPOCH_US, xid)
        if len(data) == _COMMIT.size and data[0] == _COMMIT_KIND:
            _, _, commit_lsn, end_lsn, time = _COMMIT.unpack(data)
            return Commit(commit_lsn, end_lsn, time + POSTGRES_EPOCH_US)
        kind = chr(data[0]) if data else ""
        reader = _READERS.get(kind)
        if reader is None:
            raise _unknown(kind, lsn)
        if kind in "SEcA" and self._version < 2:
            raise _error(kind, lsn, f"belongs to streaming, which version {self._version} does not have")
        body = _Body(data, self._in_stream and kind in "RYIUDTM")
        try:
            message = reader(body)
            body.finish()
        except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
            raise _error(
                kind, lsn, f"is malformed at {body.position} of {len(data)} bytes: {error}"
            ) from error
        self._follow(message, kind, lsn)
        return message

    def _follow(self, message: Message, kind: str, lsn: int) -> None:
        """Remember whether a block of a streamed transaction is open."""
        if isinstance(message, StreamStart | StreamStop):
            opens = isinstance(message, StreamStart)
            if opens == self._in_stream:
                raise _error(kind, lsn, f"came while {'a' if opens else 'no'} block was open")
            self._in_stream = opens


def read_columns(data: bytes) -> list[Column]:
    """Take TupleData apart into columns. Raises ReplicationProtocolError."""
    columns: list[Column] = []
    position = 2
    try:
        for _ in range(data[0] << 8 | data[1]):
            kind = data[position]
            if kind == _TEXT:
                start, position = position + 5, _value_end(data, position)
                columns.append(data[start:position].decode())
            elif kind == _BINARY:
                start, position = position + 5, _value_end(data, position)
                columns.append(BinaryValue(data[start:position]))
            else:
                columns.append(None if kind == _NULL else _unchanged(kind))
                position += 1
        if position != len(data):
            raise ValueError(f"{len(data) - position} bytes are left over")
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise ReplicationProtocolError(
            f"a row is malformed at {position} of {len(data)} bytes: {error}"
        ) from error
    return columns


def _value_end(data: bytes, position: int) -> int:
    """The end of a value whose kind stands at the position."""
    size = int.from_bytes(data[position + 1 : position + 5], "big", signed=True)
    end = position + 5 + size
    if size < 0 or end > len(data):
        raise ValueError(f"{size} bytes are announced, {len(data) - position - 5} are left")
    return end


def _unchanged(kind: int) -> Unchanged:
    if kind != _UNCHANGED:
        raise ValueError(f"a column is of kind {chr(kind)!r}; expected one of 'n', 'u', 't', 'b'")
    return Unchanged.TOAST


class _Body:
    """Reads one message from front to back."""

    def __init__(self, data: bytes, has_xid: bool, start: int = 1) -> None:
        self._data = data
        self.position = start
        self.xid: int | None = self.take(">I")[0] if has_xid and len(data) >= 5 else None

    def take(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(layout, self._data, self.position)
        self.position += struct.calcsize(layout)
        return found

    def text(self) -> str:
        """A string that ends with a zero byte."""
        end = self._data.index(b"\0", self.position)
        found = self._data[self.position : end].decode()
        self.position = end + 1
        return found

    def some(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ValueError(f"{size} bytes are announced, {self.left} are left")
        end = self.position + size
        found = self._data[self.position : end]
        self.position = end
        return found

    def row(self) -> bytes:
        """TupleData, checked for its lengths but not taken apart."""
        data, start = self._data, self.position
        (count,) = self.take(">H")
        position = self.position
        for _ in range(count):
            kind = data[position]
            if kind in (_TEXT, _BINARY):
                position = _value_end(data, position)
            elif kind == _NULL or _unchanged(kind):
                position += 1
        self.position = position
        return data[start:position]

    @property
    def left(self) -> int:
        """Number of bytes that are not read yet."""
        return len(self._data) - self.position

    def finish(self) -> None:
        if self.left:
            raise ValueError(f"{self.left} bytes are left over")


def _begin(body: _Body) -> Begin:
    commit_lsn, time, xid = body.take(">QqI")
    return Begin(commit_lsn, time + POSTGRES_EPOCH_US, xid)


def _commit(body: _Body) -> Commit:
    _, commit_lsn, end_lsn, time = body.take(">BQQq")
    return Commit(commit_lsn, end_lsn, time + POSTGRES_EPOCH_US)


def _origin(body: _Body) -> Origin:
    return Origin(body.take(">Q")[0], body.text())


def _relation(body: _Body) -> Relation:
    (oid,) = body.take(">I")
    schema, name = body.text() or "pg_catalog", body.text()
    identity, count = body.take(">cH")
    columns = tuple(_relation_column(body) for _ in range(count))
    return Relation(oid, schema, name, identity.decode(), columns, body.xid)


def _relation_column(body: _Body) -> RelationColumn:
    (flags,) = body.take(">B")
    name = body.text()
    type_oid, modifier = body.take(">Ii")
    return RelationColumn(name, type_oid, modifier, bool(flags & 1))


def _type_name(body: _Body) -> TypeName:
    return TypeName(body.take(">I")[0], body.text() or "pg_catalog", body.text(), body.xid)


def _insert(body: _Body) -> Insert:
    (relation,) = body.take(">I")
    _expect(body.some(1), b"N")
    return Insert(relation, body.row(), body.xid)


def _update(body: _Body) -> Update:
    (relation,) = body.take(">I")
    kind, old = body.some(1), None
    if kind in (b"K", b"O"):
        old = body.row()
        _expect(body.some(1), b"N")
    else:
        _expect(kind, b"N")
    return Update(relation, old, kind == b"K", body.row(), body.xid)


def _delete(body: _Body) -> Delete:
    (relation,) = body.take(">I")
    kind = body.some(1)
    if kind not in (b"K", b"O"):
        raise ValueError(f"the row is of kind {kind!r}; expected b'K' or b'O'")
    return Delete(relation, body.row(), kind == b"K", body.xid)


def _truncate(body: _Body) -> Truncate:
    count, flags = body.take(">IB")
    relations = body.take(f">{count}I")
    return Truncate(relations, bool(flags & 1), bool(flags & 2), body.xid)


def _logical_message(body: _Body) -> LogicalMessage:
    flags, lsn = body.take(">BQ")
    prefix = body.text()
    return LogicalMessage(bool(flags & 1), lsn, prefix, body.some(body.take(">i")[0]), body.xid)


def _stream_start(body: _Body) -> StreamStart:
    xid, is_first = body.take(">IB")
    return StreamStart(xid, is_first == 1)


def _stream_commit(body: _Body) -> StreamCommit:
    xid, _, commit_lsn, end_lsn, time = body.take(">IBQQq")
    return StreamCommit(xid, commit_lsn, end_lsn, time + POSTGRES_EPOCH_US)


def _stream_abort(body: _Body) -> StreamAbort:
    xid, subtransaction = body.take(">II")
    if not body.left:
        return StreamAbort(xid, subtransaction, None, None)
    lsn, time = body.take(">Qq")
    return StreamAbort(xid, subtransaction, lsn, time + POSTGRES_EPOCH_US)


def _expect(found: bytes, expected: bytes) -> None:
    if found != expected:
        raise ValueError(f"the row is of kind {found!r}; expected {expected!r}")


_READERS: Final[dict[str, Callable[[_Body], Message]]] = {
    "B": _begin,
    "C": _commit,
    "O": _origin,
    "R": _relation,
    "Y": _type_name,
    "I": _insert,
    "U": _update,
    "D": _delete,
    "T": _truncate,
    "M": _logical_message,
    "S": _stream_start,
    "E": lambda body: StreamStop(),
    "c": _stream_commit,
    "A": _stream_abort,
}


def _unknown(kind: str, lsn: int) -> ReplicationProtocolError:
    if kind in _TWO_PHASE:
        advice = "start the slot without two_phase"
        return _error(kind, lsn, f"is a {_TWO_PHASE[kind]}; two-phase commit is not supported; {advice}")
    return _error(kind, lsn, "is unknown")


def _error(kind: str, lsn: int, what: str) -> ReplicationProtocolError:
    return ReplicationProtocolError(f"the pgoutput message {kind!r} at {format_lsn(lsn)} {what}")
