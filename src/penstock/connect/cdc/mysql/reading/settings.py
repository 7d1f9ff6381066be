"""All settings of a capture, read from Debezium's properties."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.connect.cdc.modes import mode_of
from penstock.connect.cdc.mysql.filters import Filters
from penstock.connect.cdc.mysql.reading.catalog_reader import CatalogReader
from penstock.connect.cdc.mysql.reading.connecting import Server
from penstock.connect.cdc.mysql.reading.snapshots import SnapshotSettings
from penstock.connect.cdc.mysql.records import EventSettings
from penstock.connect.cdc.mysql.schemas import ColumnRules
from penstock.connect.cdc.selection.masks import Masks

if TYPE_CHECKING:
    import pymysql


class SnapshotMode(Enum):
    """``snapshot.mode``: when rows are read, before changes are streamed or without."""

    ALWAYS = "always"
    INITIAL = "initial"
    INITIAL_ONLY = "initial_only"
    NO_DATA = "no_data"
    NEVER = "never"
    RECOVERY = "recovery"
    WHEN_NEEDED = "when_needed"

    @property
    def reads_rows(self) -> bool:
        """Whether a task without an offset reads rows."""
        return self not in (SnapshotMode.NO_DATA, SnapshotMode.NEVER, SnapshotMode.RECOVERY)


@dataclass(frozen=True)
class CaptureSettings:
    """The settings."""

    server: Server
    server_id: int
    mode: SnapshotMode
    filters: Filters
    rules: ColumnRules
    events: EventSettings
    snapshot: SnapshotSettings
    batch_size: int
    queue_size: int
    poll_s: float
    heartbeat_s: float
    heartbeat_query: str
    retries: int
    retry_first_s: float
    retry_most_s: float
    ignores_gtids: bool

    @staticmethod
    def of(properties: Mapping[str, str], connector: str, version: str, run_id: str) -> CaptureSettings:
        """Read Debezium's properties. Raises ConnectError."""

        def number(name: str, default: int) -> int:
            return int(properties.get(name, default))

        filters = Filters.of(properties)
        return CaptureSettings(
            *(Server.of(properties), _server_id(properties)),
            mode_of(properties, "snapshot.mode", SnapshotMode.INITIAL),
            *(filters, ColumnRules(filters.column, Masks(properties).apply)),
            EventSettings.of(properties, connector, version, run_id),
            SnapshotSettings.of(properties),
            *(number("max.batch.size", 2048), number("max.queue.size", 8192)),
            *(number("poll.interval.ms", 500) / 1000, number("heartbeat.interval.ms", 0) / 1000),
            *(properties.get("heartbeat.action.query", ""), number("errors.max.retries", -1)),
            *(number("errors.retry.delay.initial.ms", 300) / 1000,),
            number("errors.retry.delay.max.ms", 10_000) / 1000,
            properties.get("gtid.ignore.on.recovery", "false").lower() == "true",
        )

    def catalog_reader(self, connect: Callable[[], pymysql.Connection[Any]], is_maria: bool) -> CatalogReader:
        """A reader of the catalog for these tables and columns."""
        events = self.events
        return CatalogReader(connect, is_maria, self.filters, events.values, events.naming, self.rules)


def _server_id(properties: Mapping[str, str]) -> int:
    """The id that the server knows this reader by; without one, it follows from the topics' prefix."""
    found = properties.get("database.server.id", "")
    return int(found) if found else 5400 + zlib.crc32(properties["topic.prefix"].encode()) % 2_000_000_000
