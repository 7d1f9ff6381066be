"""The error for a record that cannot become a row."""

from __future__ import annotations

from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError


class RowRefused(ConnectError):
    """A record cannot become a row, and would not at another attempt."""


def place(record: SinkRecord) -> str:
    """The record's place in Kafka, for messages."""
    return f"{record.original_topic}-{record.original_partition} at offset {record.original_offset}"
