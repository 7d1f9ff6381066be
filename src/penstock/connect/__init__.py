"""Kafka Connect's place: connectors in Python that move data into topics and out of them.

Its rooms:

    data          schemas, structs and records, as Kafka Connect's data API has them; pure
    definitions   the keys of configurations, as Kafka's ConfigDef has them; pure
    converters    values as the bytes of records and headers: JSON, Avro, JSON Schema, strings, numbers
    connector     the classes that users extend: tasks, connectors around them, and their contexts
    transforms    changes of records between a connector and its topics: Kafka Connect's own, and their chain
    connectors    connectors that ship: the lines of files
    cdc           change data capture: changes of databases as records, in Debezium's shape
    plugins       finds the classes that configurations name
    providers     values that configurations take from files and the environment
    configs       the keys of workers and connectors
    validation    validates the configuration of a connector, and what it overrides in its clients
    group         how the workers of one group share connectors and tasks, and sign requests to each other
    stores        a worker's three topics: configurations, source offsets and statuses, in Connect's records
    tasks         runs tasks and connectors, and tests tasks without a broker
    herding       decides what runs where, and in which state
    rest          Kafka Connect's REST API
    worker        puts all of these together to one process; `penstock connect start` runs it
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
from penstock.connect.converters.converter import Converter, HeaderConverter, RecordHeaders, SchemaAndValue
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
from penstock.connect.errors import (
    ChangesLost,
    ConfigInvalid,
    ConnectError,
    DataError,
    ReplicationProtocolError,
    RetriableError,
)
from penstock.connect.tasks.harness import FailedRecord, SinkTaskTest, SourceTaskTest
from penstock.connect.transforms.transform import Predicate, Transform

__all__ = [
    "REQUIRED",
    "ChangesLost",
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
    "Converter",
    "DataError",
    "DescribedValidator",
    "ErrantRecordReporter",
    "FailedRecord",
    "Field",
    "Header",
    "HeaderConverter",
    "Importance",
    "ListSize",
    "NonEmptyString",
    "Password",
    "Predicate",
    "Range",
    "RecordHeaders",
    "RecordMetadata",
    "ReplicationProtocolError",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SinkTaskTest",
    "SourceConnector",
    "SourceConnectorContext",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "SourceTaskTest",
    "Struct",
    "TimestampType",
    "TopicPartition",
    "TransactionContext",
    "Transform",
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
