"""Reports records that have no row, or fails the task with their place in Kafka."""

from __future__ import annotations

from penstock.connect.connector.sink import SinkTaskContext
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, DataError


def report_or_raise(context: SinkTaskContext, record: SinkRecord, error: Exception) -> None:
    """Report a record as a dead letter. Raises ConnectError where the configuration has no place for them."""
    place = f"{record.original_topic}-{record.original_partition} at offset {record.original_offset}"
    found = error if isinstance(error, ConnectError) else DataError(str(error))
    if context.reporter is None:
        raise ConnectError(f"the record in {place} cannot be written: {found}") from error
    context.reporter.report(record, found)
