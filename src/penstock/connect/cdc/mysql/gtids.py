"""Sets of global transaction ids (GTIDs): what a server sends is all that a set lacks. Pure.

MariaDB's set has the last number of each replication domain, ``0-1-250,1-3-7``. MySQL's has ranges of numbers
for each server, ``3E11FA47-…:1-5:9,…``.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from penstock.connect.errors import ConnectError


class MariaGtid(NamedTuple):
    """A transaction of MariaDB."""

    domain: int
    server_id: int
    number: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.number}"


class MariaGtids:
    """MariaDB's set."""

    def __init__(self, text: str) -> None:
        """Read a set such as ``0-1-250``. Raises ConnectError."""
        self.last: dict[int, MariaGtid] = {}
        for part in filter(None, (each.strip() for each in text.replace("\n", "").split(","))):
            try:
                self.add(MariaGtid(*map(int, part.split("-"))))
            except (TypeError, ValueError) as error:
                raise ConnectError(
                    f"{part!r} is not a GTID of MariaDB; expected one such as 0-1-250"
                ) from error

    def add(self, gtid: MariaGtid) -> None:
        """Note that a transaction, and so all before it in its domain, is done."""
        self.last[gtid.domain] = gtid

    def contains(self, other: str) -> bool:
        """Whether all transactions of a set are in this one."""
        return all(
            domain in self.last and self.last[domain].number >= gtid.number
            for domain, gtid in MariaGtids(other).last.items()
        )

    def __str__(self) -> str:
        return ",".join(str(self.last[domain]) for domain in sorted(self.last))


class MySqlGtids:
    """MySQL's set. Ranges include both ends."""

    def __init__(self, text: str) -> None:
        """Read a set such as ``3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:9``. Raises ConnectError."""
        self.ranges: dict[str, list[tuple[int, int]]] = {}
        for part in filter(None, (each.strip() for each in text.replace("\n", "").split(","))):
            source, *ranges = part.split(":")
            try:
                source = str(uuid.UUID(source))
                for each in ranges:
                    first, _, last = each.partition("-")
                    self._add_range(source, int(first), int(last or first))
            except ValueError as error:
                raise ConnectError(f"{part!r} is not a GTID set of MySQL; expected UUID:1-5") from error

    def add(self, source: str, number: int) -> None:
        """Note that a transaction is done."""
        ranges = self.ranges.get(source)
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            self._add_range(source, number, number)

    def contains(self, other: str) -> bool:
        """Whether all transactions of a set are in this one."""
        return all(
            any(low <= first and last <= high for low, high in self.ranges.get(source, ()))
            for source, ranges in MySqlGtids(other).ranges.items()
            for first, last in ranges
        )

    def encoded(self) -> bytes:
        """The set as COM_BINLOG_DUMP_GTID sends it; ends of ranges are exclusive there."""
        parts = [struct.pack("<Q", len(self.ranges))]
        for source, ranges in sorted(self.ranges.items()):
            parts += [uuid.UUID(source).bytes, struct.pack("<Q", len(ranges))]
            parts += [struct.pack("<QQ", first, last + 1) for first, last in ranges]
        return b"".join(parts)

    def _add_range(self, source: str, first: int, last: int) -> None:
        self.ranges[source] = _merged([*self.ranges.get(source, ()), (first, last)])

    def __str__(self) -> str:
        return ",".join(
            ":".join([source, *(f"{low}-{high}" if low != high else str(low) for low, high in ranges)])
            for source, ranges in sorted(self.ranges.items())
        )


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return made
