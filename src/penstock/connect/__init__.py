"""Kafka Connect's place: connectors in Python that move data into topics and out of them.

Its rooms:

    data          schemas, structs and records, as Kafka Connect's data API has them; pure
    definitions   the keys of configurations, as Kafka's ConfigDef has them; pure
    connector     the classes that users extend: tasks, connectors around them, and their contexts
    group         how the workers of one group share connectors and tasks, and sign requests to each other
    stores        a worker's three topics: configurations, source offsets and statuses, in Connect's records
    cdc           change data capture: changes of databases as records, in Debezium's shape

No worker runs connectors yet.
"""

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.connector import Connector, ConnectorContext
from penstock.connect.connector.sink import ErrantRecordReporter, SinkConnector, SinkTask, SinkTaskContext
from penstock.connect.connector.source import (
    RecordMetadata,
    SourceConnector,
    SourceConnectorContext,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
)
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
    ConfigValue,
    Importance,
    Password,
    Width,
)
from penstock.connect.definitions.validators import (
    CompositeValidator,
    DescribedValidator,
    ListSize,
    NonEmptyString,
    Range,
    ValidList,
    ValidString,
)
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError, RetriableError

__all__ = [
    "REQUIRED",
    "CompositeValidator",
    "ConfigDef",
    "ConfigInvalid",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "ConnectError",
    "ConnectRecord",
    "Connector",
    "ConnectorContext",
    "DataError",
    "DescribedValidator",
    "ErrantRecordReporter",
    "Field",
    "Header",
    "Importance",
    "ListSize",
    "NonEmptyString",
    "Password",
    "Range",
    "RecordMetadata",
    "RetriableError",
    "Schema",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceConnectorContext",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Struct",
    "TimestampType",
    "TopicPartition",
    "TransactionContext",
    "Type",
    "ValidList",
    "ValidString",
    "Width",
    "date_schema",
    "decimal_schema",
    "time_schema",
    "timestamp_schema",
    "validate_struct",
    "validate_value",
]
