"""The place in the stream that a stored offset names, and the records after it. Pure.

The server can send a transaction again, but only as a whole. An offset therefore names the last commit
(``lsn_commit``) to start from, and a record within the transaction that came after it: the transaction
(``txId``), the position (``lsn``) and the number of records there (``lsn_records``). Positions alone are not
enough, because transactions overlap: the next one to commit may have changes before ``lsn``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.connect.cdc.postgres.events import Position
from penstock.connect.data.records import SourceRecord

SLOT_POSITION: Final = "lsn_slot"
"""In offsets with ``offset.mismatch.strategy=trust_offset``: the position that the record confirms."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A place in the stream; `start` is where the server begins, 0 stands for the slot's own position."""

    start: int
    xid: int | None = None
    lsn: int = 0
    records: int = 0

    @staticmethod
    def of(offset: Mapping[str, Any]) -> ResumePoint:
        """The place after the record with this offset.

        Debezium's own offsets do not count the records at a position, so all records there come again: after
        COPY, some of them may not have been written.
        """
        lsn = offset.get("lsn") or 0
        if offset.get("snapshot") and not offset.get("messageType"):
            return ResumePoint(lsn)
        start, count = offset.get("lsn_commit") or 0, offset.get("lsn_records") or 0
        return ResumePoint(start, offset.get("txId"), lsn, count)

    def after(self, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        """The records of the same transaction that come after this place."""
        place = (self.lsn, self.records)
        return [each for each in records if _place(each) > place]


def position_of(offset: Mapping[str, Any]) -> Position:
    """The position that a stored offset stands for, for the records that follow."""
    if offset.get("snapshot") and not offset.get("messageType"):
        return Position(committed=offset.get("lsn"))
    return Position(
        processed=offset.get("lsn_proc"),
        committed=offset.get("lsn_commit"),
        lsn=offset.get("lsn"),
        message_type=offset.get("messageType"),
        xid=offset.get("txId"),
        committed_us=offset.get("ts_usec"),
        records=offset.get("lsn_records"),
    )


def _place(record: SourceRecord) -> tuple[int, int]:
    return record.source_offset["lsn"], record.source_offset["lsn_records"]
