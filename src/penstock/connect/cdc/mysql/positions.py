"""Places in the binary log, as stored offsets name them in Debezium's shape. Pure.

A server can only send whole transactions. An offset therefore names where the transaction at hand begins
(``file``, ``pos``, and in ``gtids`` the transactions before it), how many of its events are done (``event``)
and how many rows of the next one (``row``). Events are counted from the one that begins the transaction.
MariaDB's events that annotate rows are not counted, because the server sends them only if asked.

Offsets made here also have ``gtid_current``, the transaction that ``event`` and ``row`` belong to: after a
failover another transaction may come first. A transaction with another GTID or place is read from its begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The place after the last record that was stored."""

    file: str
    position: int
    gtids: str | None = None
    events: int = 0
    rows: int = 0
    gtid: str | None = None

    @staticmethod
    def of(offset: Mapping[str, Any]) -> ResumePoint:
        """Read a stored offset."""
        return ResumePoint(
            *(offset["file"], int(offset["pos"]), offset.get("gtids")),
            *(int(offset.get("event") or 0), int(offset.get("row") or 0), offset.get("gtid_current")),
        )

    def is_of(self, file: str, position: int, gtid: str | None) -> bool:
        """Whether the transaction that begins here is the one that was left in the middle.

        The GTID alone does not tell: a server that lost its last transaction gives its GTID to another one.
        """
        is_same = self.gtid is None or gtid is None or self.gtid == gtid
        return is_same and (self.file, self.position) == (file, position)


def is_in_snapshot(offset: Mapping[str, Any]) -> bool:
    """Whether the offset is of a record in the middle of a snapshot, which has to begin again."""
    return str(offset.get("snapshot", "false")).lower() not in ("false", "none")


@dataclass(slots=True)
class Position:
    """Where the stream is.

    `file` and `start` are the restart point, `gtids` the transactions before it. `event` and `row` are done
    since. `log_file` is the file that is being read, and `event_start` the event in it.
    """

    file: str
    start: int
    gtids: str | None = None
    event: int = 0
    log_file: str = ""
    event_start: int = 0
    server_id: int = 0
    time_us: int = 0
    gtid: str | None = None
    thread: int | None = None
    query: str | None = None

    def offset(self, row: int = 0) -> dict[str, Any]:
        """The offset after so many rows of the event at hand."""
        made: dict[str, Any] = {"ts_sec": self.time_us // 1_000_000, "file": self.file, "pos": self.start}
        if self.server_id:
            made["server_id"] = self.server_id
        if self.gtids is not None:
            made["gtids"] = self.gtids
        if self.event:
            made["event"] = self.event
            if self.gtid is not None:
                made["gtid_current"] = self.gtid
        if row:
            made["row"] = row
        return made
