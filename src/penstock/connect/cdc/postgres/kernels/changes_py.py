"""Changes from frames of the stream, and their JSON: the twin in Python, which describes both.

`read_changes` takes plain changes of known tables out of many frames in one call. Everything else is left to
`events.EventWriter`: other messages, malformed ones, changed keys, and rows that contradict their schemas.
The JSON is that of the converter, because constants are written by the converter when a layout is made, and
so is each value that is not of a simple kind (`Scalar`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, Protocol

from penstock.connect.cdc.postgres.copy_text import read_row
from penstock.connect.cdc.postgres.pgoutput import Column, Unchanged, read_columns
from penstock.connect.errors import ReplicationProtocolError
from penstock.protocol.batch import Buffer

_FRAME: Final = Struct(">cQQqcIc")
"""The head of an XLogData frame up to the kind of a change's first row."""

_LSN_MAX: Final = (1 << 63) - 1

Place = tuple[int | None, int | None, int | None]
"""The common part of a transaction's changes: the last commit's LSN, the transaction's id, its time in µs."""


class TablePlan(Protocol):
    """The facts of a table that reading its changes needs.

    `required` has a byte for each column of the relation: 1 if the schemas forbid null. `key_places` are the
    columns of the key. `has_tombstones` tells whether a delete is followed by a tombstone, `is_identified`
    whether the replica identity has the whole key.
    """

    @property
    def required(self) -> bytes: ...

    @property
    def key_places(self) -> tuple[int, ...]: ...

    @property
    def has_tombstones(self) -> bool: ...

    @property
    def is_identified(self) -> bool: ...


class Change:
    """One change of a row, as it stands in its frame.

    ``new_at`` and ``old_at`` are the positions of its rows in ``frame``, or -1; the new row is the last part
    of the frame. ``records`` counts the records at this LSN. ``snapshot`` is a snapshot's marker.
    """

    __slots__ = (
        *("frame", "is_tombstone", "lsn", "new_at", "now_us", "old_at", "operation", "place", "plan"),
        *("records", "snapshot"),
    )

    def __init__(
        self,
        plan: Any,
        operation: str,
        frame: bytes,
        new_at: int,
        old_at: int,
        lsn: int,
        place: Place,
        now_us: int,
        records: int,
        is_tombstone: bool = False,
        snapshot: str | None = None,
    ) -> None:
        self.plan = plan
        self.operation = operation
        self.frame = frame
        self.new_at = new_at
        self.old_at = old_at
        self.lsn = lsn
        self.place = place
        self.now_us = now_us
        self.records = records
        self.is_tombstone = is_tombstone
        self.snapshot = snapshot

    @property
    def new(self) -> bytes | None:
        """The TupleData of the new row."""
        return None if self.new_at < 0 else self.frame[self.new_at :]

    @property
    def old(self) -> bytes | None:
        """The TupleData of the old row."""
        if self.old_at < 0:
            return None
        return self.frame[self.old_at :] if self.new_at < 0 else self.frame[self.old_at : self.new_at - 1]


def read_changes(
    frames: Sequence[bytes],
    at: int,
    plans: Mapping[int, TablePlan],
    place: Place,
    last_lsn: int,
    records: int,
    clock_us: Callable[[], int],
    make: Callable[[Change], Any],
    out: list[Any],
) -> tuple[int, int, int, str | None]:
    """Add to the empty list ``out`` what ``make`` gives for each change from frame number ``at`` on.

    ``records`` counts the records at ``last_lsn``. Returns the number of the first frame that is left, the
    LSN of the last change with the count of its records, and the type of its message.
    """
    message_type: str | None = None
    while at < len(frames):
        frame = frames[at]
        try:
            tag, lsn, _, _, kind, relation, row_kind = _FRAME.unpack_from(frame)
        except StructError:  # shorter than any change
            break
        is_change = tag == b"w" and lsn <= _LSN_MAX and kind in _OPERATIONS
        plan = plans.get(relation) if is_change else None
        rows = None if plan is None else _rows(plan, frame, kind, row_kind)
        if plan is None or rows is None:
            break
        operation, message_type = _OPERATIONS[kind]
        now_us = clock_us()
        records = 1 if lsn != last_lsn else records + 1
        last_lsn = lsn
        out.append(make(Change(plan, operation, frame, *rows, lsn, place, now_us, records)))
        if kind == b"D" and plan.has_tombstones:
            records += 1
            out.append(make(Change(plan, operation, frame, *rows, lsn, place, now_us, records, True)))
        at += 1
    return at, last_lsn, records, message_type


def copied_row(block: Buffer) -> bytes:
    """The TupleData of a line of COPY in text format, with its line feed."""
    line = str(block, "utf-8")
    if not line.endswith("\n"):
        raise ValueError("a row of COPY does not end with a line feed")
    return tuple_data(read_row(line[:-1]))


def tuple_data(row: Sequence[str | None]) -> bytes:
    """The TupleData of texts."""
    made = bytearray(len(row).to_bytes(2, "big"))
    for text in row:
        if text is None:
            made += b"n"
        else:
            data = text.encode()
            made += b"t" + len(data).to_bytes(4, "big") + data
    return bytes(made)


_OPERATIONS: Final = {b"I": ("c", "INSERT"), b"U": ("u", "UPDATE"), b"D": ("d", "DELETE")}


def _rows(plan: TablePlan, frame: bytes, kind: bytes, row_kind: bytes) -> tuple[int, int] | None:
    """Where the new and the old row begin; None if the change is not a plain one."""
    first = _FRAME.size
    try:
        if kind == b"D":
            old = read_columns(frame[first:])
            has_key = row_kind == b"O" or (row_kind == b"K" and plan.is_identified)
            is_plain = _is_text(old) and len(old) == len(plan.required) and has_key
            return (-1, first) if is_plain and (row_kind == b"K" or _fits(plan, old)) else None
        if row_kind == b"N":
            new = read_columns(frame[first:])
            return (first, -1) if _is_text(new) and _fits(plan, new) else None
        if kind != b"U" or row_kind != b"O":
            return None
        new_at = _end_of_row(frame, first) + 1
        old, new = read_columns(frame[first : new_at - 1]), read_columns(frame[new_at:])
    except (ReplicationProtocolError, IndexError):
        return None
    is_plain = frame[new_at - 1 : new_at] == b"N" and all(
        _is_text(row) and _fits(plan, row) for row in (old, new)
    )
    return (new_at, first) if is_plain and _has_same_key(plan, new, old) else None


def _end_of_row(frame: bytes, at: int) -> int:
    count = int.from_bytes(frame[at : at + 2], "big")
    at += 2
    for _ in range(count):
        at += 5 + int.from_bytes(frame[at + 1 : at + 5], "big") if frame[at] == ord("t") else 1
    return at


def _is_text(row: Sequence[Column]) -> bool:
    return not any(isinstance(each, bytes) for each in row)


def _fits(plan: TablePlan, row: Sequence[Column]) -> bool:
    required = plan.required
    return len(row) == len(required) and not any(
        need and each is None for need, each in zip(required, row, strict=True)
    )


def _has_same_key(plan: TablePlan, new: Sequence[Column], old: Sequence[Column]) -> bool:
    return all(
        isinstance(old[place], str) and new[place] in (old[place], Unchanged.TOAST)
        for place in plan.key_places
    )


class Scalar:
    """The kinds of values that need no Python, by the numbers that both kernels know."""

    CALL: Final = 0
    """Any other value: the cell's function writes it."""
    INTEGER: Final = 1
    """An integer with at most `limit` digits."""
    BOOLEAN: Final = 2
    TEXT: Final = 3
    MICROS: Final = 4
    """A timestamp without a zone as microseconds since 1970."""
    MILLIS: Final = 5
    DATE: Final = 6
    """A date as days since 1970."""
    ZONED: Final = 7
    """A timestamp with a zone as text in UTC, with `limit` digits of a second."""
    DECIMAL: Final = 8
    """A number with `limit` digits after the point, as the base64 of its unscaled bytes."""


class Cell(NamedTuple):
    """How one field of a row is written.

    ``lead`` stands before its value, ``null`` in place of null, and ``unchanged`` in place of a value that
    the server did not send. ``write`` writes a text, and those two if they are None here: it raises then.
    """

    lead: bytes
    place: int
    scalar: int
    limit: int
    null: bytes | None
    unchanged: bytes | None
    write: Callable[[Column], bytes]


class RowLayout:
    """How rows become JSON: the cells in the order of the fields, between ``begin`` and ``end``."""

    def __init__(self, begin: bytes, cells: Sequence[Cell], end: bytes) -> None:
        self._begin, self._cells, self._end = begin, tuple(cells), end

    def written(self, row: Sequence[Column], old: Sequence[Column] | None) -> bytes:
        made = [self._begin]
        for lead, place, _, _, null, unchanged, write in self._cells:
            text = row[place]
            if text is Unchanged.TOAST:
                before = None if old is None or place >= len(old) else old[place]
                if isinstance(before, str):
                    made += (lead, write(before))
                else:
                    made += (lead, write(text) if unchanged is None else unchanged)
            elif text is None:
                made += (lead, write(None) if null is None else null)
            else:
                assert isinstance(text, str), "rows with binary values are not plain"
                made += (lead, write(text))
        return b"".join((*made, self._end))


class Slot:
    """The numbers that an envelope has, by the numbers that both kernels know."""

    NOTHING: Final = 0
    LSN: Final = 1
    COMMITTED: Final = 2
    XID: Final = 3
    COMMIT_MS: Final = 4
    COMMIT_US: Final = 5
    COMMIT_NS: Final = 6
    NOW_MS: Final = 7
    NOW_US: Final = 8
    NOW_NS: Final = 9


class EnvelopeLayout:
    """How envelopes become JSON: ``head``, the old row, ``middle``, the new row, then ``parts``.

    A part is a piece of JSON and the number after it. ``null`` stands for a row that is not there.
    """

    def __init__(self, head: bytes, middle: bytes, null: bytes, parts: Sequence[tuple[bytes, int]]) -> None:
        self._head, self._middle, self._null, self._parts = head, middle, null, tuple(parts)

    def written(self, change: Change, before: bytes | None, after: bytes | None) -> bytes:
        committed, xid, committed_us = change.place
        time_us, now_us = committed_us or 0, change.now_us
        numbers = (
            *(0, change.lsn, committed or 0, xid or 0, time_us // 1000, time_us, time_us * 1000),
            *(now_us // 1000, now_us, now_us * 1000),
        )
        made = [self._head, before or self._null, self._middle, after or self._null]
        for piece, slot in self._parts:
            made.append(piece)
            if slot:
                made.append(b"%d" % numbers[slot])
        return b"".join(made)


def key_json(change: Change, layout: RowLayout) -> bytes:
    """The key of a change. Raises what the cells' functions raise."""
    new, old = _columns(change.new), _columns(change.old)
    if new is None:
        assert old is not None, "a change has a row"
        return layout.written(old, None)
    return layout.written(new, old)


def value_json(change: Change, layout: RowLayout, envelope: EnvelopeLayout) -> bytes:
    """The envelope of a change, with its rows. Raises what the cells' functions raise."""
    new, old = _columns(change.new), _columns(change.old)
    before = None if old is None else layout.written(old, None)
    after = None if new is None else layout.written(new, old)
    return envelope.written(change, before, after)


def _columns(data: bytes | None) -> list[Column] | None:
    return None if data is None else read_columns(data)
