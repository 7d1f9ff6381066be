"""The places up to which tables were read, in the form in which the JDBC connectors store them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from penstock.connect.connectors.sql.names import TableName
from penstock.connect.data.records import Offset, Partition
from penstock.connect.errors import ConnectError

TIMESTAMP: Final = "timestamp"
TIMESTAMP_NANOS: Final = "timestamp_nanos"
INCREMENTING: Final = "incrementing"
QUERY_PARTITION: Final[Partition] = {"query": "query"}
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND: Final = datetime.timedelta(microseconds=1)
MICROS_PER_SECOND: Final = 1_000_000


def partition_of(table: TableName) -> Partition:
    """The partition of a table in offsets of protocol 1, which are the ones that are written."""
    return {"protocol": "1", "table": str(table)}


def partitions_of(table: TableName) -> Sequence[Partition]:
    """The partitions under which the offset of a table may be stored, the newest protocol first."""
    return partition_of(table), {"table": table.name}


@dataclass(frozen=True, slots=True)
class Position:
    """The last row that was read: its time and its number, as far as the mode needs them."""

    timestamp: datetime.datetime | None = None
    incrementing: int | None = None

    def to_offset(self) -> Offset:
        """The offset to store."""
        offset: dict[str, int] = {}
        if self.incrementing is not None:
            offset[INCREMENTING] = self.incrementing
        if self.timestamp is not None:
            micros = (self.timestamp - EPOCH) // MICROSECOND
            offset[TIMESTAMP] = micros // 1000
            offset[TIMESTAMP_NANOS] = micros % MICROS_PER_SECOND * 1000
        return offset

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any] | None) -> Self:
        """Read a stored offset. Raises ConnectError."""
        if not offset:
            return cls()
        for name in (INCREMENTING, TIMESTAMP, TIMESTAMP_NANOS):
            if type(offset.get(name, 0)) is not int:
                raise ConnectError(f"the offset {dict(offset)} has no whole number as {name}")
        millis = offset.get(TIMESTAMP)
        if millis is None:
            return cls(incrementing=offset.get(INCREMENTING))
        nanos = offset.get(TIMESTAMP_NANOS, millis % 1000 * 1_000_000)
        micros = millis // 1000 * MICROS_PER_SECOND + nanos // 1000
        return cls(EPOCH + micros * MICROSECOND, offset.get(INCREMENTING))
