"""The task of the connectors for MySQL and MariaDB.

Offsets are Debezium's. If the worker lets the task end its transactions (``transaction.boundary=connector``),
a Kafka transaction holds one or more whole transactions of the server, and the offset after them.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connect.cdc.configuration import texts_of
from penstock.connect.cdc.mysql.source.definition import WITHOUT_EFFECT, definition
from penstock.connect.connector.source import SourceTask
from penstock.connect.data.records import SourceRecord
from penstock.connect.definitions.config_def import ConfigDef

if TYPE_CHECKING:
    from penstock.connect.cdc.mysql.reading.capture import Capture

log = logging.getLogger(__name__)

DEBEZIUM_VERSION = "3.6.1.Final"
"""The version in each record's source block: that of Debezium whose records these are."""


class MySqlTask(SourceTask):
    """Reads snapshots and changes of one server. There is one task per connector."""

    definition: ClassVar[ConfigDef] = definition()
    exactly_once: ClassVar[bool | None] = True
    defines_transactions: ClassVar[bool] = True
    connector: ClassVar[str] = "mysql"
    """The name in source blocks and schemas."""

    _capture: Capture | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        """Start to read after the stored offset."""
        # imported late, so that a worker without PyMySQL can list the connector
        from penstock.connect.cdc.mysql.reading.capture import Capture
        from penstock.connect.cdc.mysql.reading.settings import CaptureSettings

        properties = texts_of(config)
        for name in sorted(WITHOUT_EFFECT & properties.keys()):
            log.warning("a configuration of Debezium's has no effect here name=%s", name)
        settings = CaptureSettings.of(properties, self.connector, DEBEZIUM_VERSION, str(uuid.uuid4()))
        offset = self.context.offset({"server": settings.events.naming.prefix})
        self._poll_s = settings.poll_s
        self._capture = Capture(settings, offset)
        self._capture.start()

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next batch, and let the transaction end after its last whole transaction."""
        assert self._capture is not None, "the worker starts a task before it polls"
        batch = self._capture.take(self._poll_s)
        if batch is None:
            return None
        transaction = self.context.transaction
        if batch.aborts:
            if transaction is None:
                return None
            transaction.abort(batch.records[-1])
        elif batch.boundary is not None and transaction is not None:
            transaction.commit(batch.boundary)
        return batch.records

    def stop(self) -> None:
        """End the thread that reads, and its connections."""
        if self._capture is not None:
            self._capture.stop()


class MariaDbTask(MySqlTask):
    """The same for MariaDB."""

    connector: ClassVar[str] = "mariadb"
