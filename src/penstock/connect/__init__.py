"""Kafka Connect's place: connectors in Python that move data into topics and out of them.

data          schemas, structs and records, as Kafka Connect's data API has them; pure
"""

from penstock.connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from penstock.connect.data.records import ConnectRecord, Header, SinkRecord, SourceRecord, TimestampType
from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.data.validation import validate_struct, validate_value
from penstock.connect.errors import ConnectError, DataError, RetriableError

__all__ = [
    "ConnectError",
    "ConnectRecord",
    "DataError",
    "Field",
    "Header",
    "RetriableError",
    "Schema",
    "SinkRecord",
    "SourceRecord",
    "Struct",
    "TimestampType",
    "Type",
    "date_schema",
    "decimal_schema",
    "time_schema",
    "timestamp_schema",
    "validate_struct",
    "validate_value",
]
