"""The settings of a capture, from Debezium's properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from penstock.connect.cdc.postgres.events import EventSettings
from penstock.connect.cdc.postgres.reading.catalog_reader import CatalogReader
from penstock.connect.cdc.postgres.reading.connecting import Server
from penstock.connect.cdc.postgres.reading.snapshots import SnapshotSettings
from penstock.connect.cdc.postgres.reading.starting import SnapshotMode
from penstock.connect.cdc.postgres.schemas import ColumnRules, NamingSettings
from penstock.connect.cdc.postgres.selection.filters import Filters
from penstock.connect.cdc.selection.masks import Masks


@dataclass(frozen=True)
class CaptureSettings:
    """The choices of a capture; `properties` are the texts it was read from.

    `retries` is the number of attempts to connect again after one failed, -1 for no limit, and
    `slot_retries` that while the slot is in use by another session.
    """

    properties: Mapping[str, str]
    server: Server
    mode: SnapshotMode
    events: EventSettings
    naming: NamingSettings
    filters: Filters
    rules: ColumnRules
    snapshot: SnapshotSettings
    slot: str
    publication: str
    stream_parameters: Mapping[str, str]
    has_failover: bool
    drops_slot: bool
    batch_size: int
    queue_size: int
    poll_s: float
    status_s: float
    heartbeat_s: float
    heartbeat_query: str
    heartbeat_message: bool
    retries: int
    slot_retries: int
    retry_first_s: float
    retry_most_s: float
    advances_when_idle: bool
    trusts_offset: bool
    """Whether only stored offsets are confirmed: a slot beyond the offset was then moved by someone else."""

    @staticmethod
    def of(properties: Mapping[str, str], version: str, run_id: str) -> CaptureSettings:
        """Read Debezium's properties; missing ones have Debezium's defaults. Raises ConnectError."""

        def number(name: str, default: int) -> int:
            return int(properties.get(name, default))

        def is_on(name: str) -> bool:
            return properties.get(name, "false").lower() == "true"

        filters = Filters.of(properties)
        parameters = (each.partition("=") for each in properties.get("slot.stream.params", "").split(";"))
        return CaptureSettings(
            properties=properties,
            server=Server.of(properties),
            mode=SnapshotMode.of(properties.get("snapshot.mode", "initial")),
            events=EventSettings.of(properties, version, run_id),
            naming=NamingSettings.of(properties),
            filters=filters,
            rules=ColumnRules(filters.column, Masks(properties).apply),
            snapshot=SnapshotSettings.of(properties),
            slot=properties.get("slot.name", "debezium"),
            publication=properties.get("publication.name", "dbz_publication"),
            stream_parameters={name.strip(): value.strip() for name, _, value in parameters if name.strip()},
            has_failover=is_on("slot.failover"),
            drops_slot=is_on("slot.drop.on.stop"),
            batch_size=number("max.batch.size", 2048),
            queue_size=number("max.queue.size", 8192),
            poll_s=number("poll.interval.ms", 500) / 1000,
            status_s=number("status.update.interval.ms", 10_000) / 1000,
            heartbeat_s=number("heartbeat.interval.ms", 0) / 1000,
            heartbeat_query=properties.get("heartbeat.action.query", ""),
            heartbeat_message=is_on("heartbeat.emit.message"),
            retries=number("errors.max.retries", -1),
            slot_retries=number("slot.max.retries", 6),
            retry_first_s=number("errors.retry.delay.initial.ms", 300) / 1000,
            retry_most_s=number("errors.retry.delay.max.ms", 10_000) / 1000,
            advances_when_idle=properties.get("lsn.flush.mode", "connector").lower() != "manual",
            trusts_offset=properties.get("offset.mismatch.strategy", "").lower() == "trust_offset",
        )

    @property
    def streams(self) -> bool:
        """Whether changes are read after the snapshot."""
        return self.mode is not SnapshotMode.INITIAL_ONLY

    def catalog_reader(self, connect: Callable[[], psycopg.Connection[Any]]) -> CatalogReader:
        """A reader of the catalog for these tables and columns."""
        return CatalogReader(connect, self.filters, self.events.values, self.naming, self.rules)
