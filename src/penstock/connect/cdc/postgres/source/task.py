"""The task of the connector for PostgreSQL.

Offsets are Debezium's. If the worker lets the task end its transactions (``transaction.boundary=connector``),
a Kafka transaction holds one or more whole transactions of PostgreSQL, and their offset. The server learns
that WAL is not needed any more only after the worker stored the offset of what was in it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connect.cdc.configuration import texts_of
from penstock.connect.cdc.postgres.source.definition import WITHOUT_EFFECT, definition
from penstock.connect.connector.source import RecordMetadata, SourceTask
from penstock.connect.data.records import SourceRecord
from penstock.connect.definitions.config_def import ConfigDef

if TYPE_CHECKING:
    from penstock.connect.cdc.postgres.reading.capture import Capture
    from penstock.connect.cdc.postgres.reading.confirmations import Confirmations

log = logging.getLogger(__name__)

DEBEZIUM_VERSION = "3.6.1.Final"
"""The version in each record's source block: that of Debezium whose records these are."""


class PostgresTask(SourceTask):
    """Reads snapshots and changes of one database. There is one task per connector."""

    definition: ClassVar[ConfigDef] = definition()
    exactly_once: ClassVar[bool | None] = True
    defines_transactions: ClassVar[bool] = True

    _capture: Capture | None = None
    _confirmations: Confirmations

    def start(self, config: Mapping[str, Any]) -> None:
        """Start to read after the stored offset."""
        # imported late, so that a worker without psycopg can list the connector
        from penstock.connect.cdc.postgres.reading.capture import Capture
        from penstock.connect.cdc.postgres.reading.confirmations import Confirmations
        from penstock.connect.cdc.postgres.reading.settings import CaptureSettings

        properties = texts_of(config)
        for name in sorted(WITHOUT_EFFECT & properties.keys()):
            log.warning("a configuration of Debezium's has no effect here name=%s", name)
        settings = CaptureSettings.of(properties, DEBEZIUM_VERSION, str(uuid.uuid4()))
        offset = self.context.offset({"server": settings.naming.prefix})
        self._poll_s = settings.poll_s
        self._confirmations = Confirmations()
        self._capture = Capture(settings, offset)
        self._capture.start()

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next batch, and let the transaction end after its last whole transaction."""
        assert self._capture is not None, "the worker starts a task before it polls"
        deadline = time.monotonic() + self._poll_s
        while True:
            self._capture.confirm(self._confirmations.position)
            batch = self._capture.take(max(deadline - time.monotonic(), 0))
            if batch is None:
                return None
            self._confirmations.emitted(batch)
            if batch.records:
                if batch.boundary is not None and self.context.transaction is not None:
                    self.context.transaction.commit(batch.boundary)
                return batch.records

    def commit(self) -> None:
        """Let the server discard WAL whose changes are in topics, now that their offset is stored."""
        self._confirmations.stored()
        if self._capture is not None:
            self._capture.confirm(self._confirmations.position)

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Note that a record is in its topic."""
        self._confirmations.reported(record)

    def gauges(self) -> Mapping[str, float]:
        """Return how far the slot is behind."""
        return {} if self._capture is None else self._capture.gauges()

    def stop(self) -> None:
        """End the thread that reads, and its connections."""
        if self._capture is not None:
            self._capture.stop()
