"""The messages of pgoutput, PostgreSQL's output plugin for logical replication, as values.

Rows stay bytes here: a change carries the TupleData of the wire, which `pgoutput.read_columns` takes apart. A
kernel that writes records straight from these bytes needs no object per column.
"""

from __future__ import annotations

from typing import NamedTuple


class Begin(NamedTuple):
    """A transaction begins; `commit_lsn` is where its commit stands."""

    commit_lsn: int
    committed_us: int
    xid: int


class Commit(NamedTuple):
    """A transaction ends; `end_lsn` is the position after its commit."""

    commit_lsn: int
    end_lsn: int
    committed_us: int


class Origin(NamedTuple):
    """The transaction was replicated from another server."""

    commit_lsn: int
    name: str


class RelationColumn(NamedTuple):
    """A column of a relation; `is_key` tells whether it belongs to the replica identity."""

    name: str
    type_oid: int
    modifier: int
    is_key: bool


class Relation(NamedTuple):
    """A table, sent before its first change and after it was altered.

    `replica_identity` is pg_class.relreplident: d default, n nothing, f full, i index. `xid` is set inside
    streamed transactions only, here and in the messages below.
    """

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]
    xid: int | None


class TypeName(NamedTuple):
    """The name of a type that is not built in, sent before the first relation that uses it."""

    oid: int
    schema: str
    name: str
    xid: int | None


class Insert(NamedTuple):
    """A new row."""

    relation: int
    new: bytes
    xid: int | None


class Update(NamedTuple):
    """A changed row. `old` is there if the replica identity changed or is full; `old_is_key` tells which."""

    relation: int
    old: bytes | None
    old_is_key: bool
    new: bytes
    xid: int | None


class Delete(NamedTuple):
    """A deleted row: its replica identity, or all of it if that is full."""

    relation: int
    old: bytes
    old_is_key: bool
    xid: int | None


class Truncate(NamedTuple):
    """Truncated tables."""

    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool
    xid: int | None


class LogicalMessage(NamedTuple):
    """A message of pg_logical_emit_message; one that is not transactional comes at once, by itself."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes
    xid: int | None


class StreamStart(NamedTuple):
    """A block of a transaction in progress begins (version 2)."""

    xid: int
    is_first: bool


class StreamStop(NamedTuple):
    """The block of a transaction in progress ends."""


class StreamCommit(NamedTuple):
    """A transaction that was streamed in blocks commits."""

    xid: int
    commit_lsn: int
    end_lsn: int
    committed_us: int


class StreamAbort(NamedTuple):
    """A streamed transaction, or a part of it, rolls back; position and time come in parallel streaming."""

    xid: int
    subtransaction_xid: int
    abort_lsn: int | None
    aborted_us: int | None


Change = Insert | Update | Delete | Truncate
Message = (
    Begin
    | Commit
    | Origin
    | Relation
    | TypeName
    | Change
    | LogicalMessage
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
)
