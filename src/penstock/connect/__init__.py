"""Kafka Connect's place: connectors in Python that move data into topics and out of them.

data          schemas, structs and records, as Kafka Connect's data API has them; pure
definitions   Kafka's ConfigDef, and the configurations of workers, connectors, sources and sinks; pure
"""

from penstock.connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from penstock.connect.data.records import ConnectRecord, Header, SinkRecord, SourceRecord, TimestampType
from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.data.validation import validate_struct, validate_value
from penstock.connect.definitions.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    Password,
    Width,
)
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError, RetriableError

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigInvalid",
    "ConfigKey",
    "ConfigType",
    "ConnectError",
    "ConnectRecord",
    "DataError",
    "Field",
    "Header",
    "Importance",
    "Password",
    "RetriableError",
    "Schema",
    "SinkRecord",
    "SourceRecord",
    "Struct",
    "TimestampType",
    "Type",
    "Width",
    "date_schema",
    "decimal_schema",
    "time_schema",
    "timestamp_schema",
    "validate_struct",
    "validate_value",
]
