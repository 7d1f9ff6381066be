"""Streams applications in Python: Kafka Streams' operations and semantics, run by Spark.

This package holds the API that users write applications with: `App`, `TopologyTest`, windows, stores, and in
`dsl` streams and tables. What an operation adds to the topology is in `construction`. What the operations
compute belongs in `penstock.topology`, and running on Spark in `penstock.spark`. Begin with `App`; test with
`TopologyTest`. The guide is `docs/streams.md`.
"""

from penstock.streams.app import App
from penstock.streams.dsl.grouped import CogroupedStream, GroupedStream
from penstock.streams.dsl.stream import Stream
from penstock.streams.dsl.table import GlobalTable, GroupedTable, Table
from penstock.streams.dsl.windowed import WindowedStream
from penstock.streams.serdes import (
    Serde,
    Window,
    Windowed,
    double,
    integer,
    json,
    long,
    raw,
    session_windowed,
    string,
    time_windowed,
)
from penstock.streams.stores import key_value_store, session_store, versioned_store, window_store
from penstock.streams.suppressing import until_time_limit, until_window_closes
from penstock.streams.topology_test import TopologyTest
from penstock.streams.windows import hopping, sessions, sliding, tumbling
from penstock.topology.errors import (
    CoPartitioningError,
    InvalidRecord,
    RecordFailed,
    SerdeError,
    StreamsError,
    TopologyError,
)
from penstock.topology.operators.process import Processor, ProcessorContext
from penstock.topology.records import Record
from penstock.topology.vectorised import vectorised

__all__ = [
    "App",
    "CoPartitioningError",
    "CogroupedStream",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "InvalidRecord",
    "Processor",
    "ProcessorContext",
    "Record",
    "RecordFailed",
    "Serde",
    "SerdeError",
    "Stream",
    "StreamsError",
    "Table",
    "TopologyError",
    "TopologyTest",
    "Window",
    "Windowed",
    "WindowedStream",
    "double",
    "hopping",
    "integer",
    "json",
    "key_value_store",
    "long",
    "raw",
    "session_store",
    "session_windowed",
    "sessions",
    "sliding",
    "string",
    "time_windowed",
    "tumbling",
    "until_time_limit",
    "until_window_closes",
    "vectorised",
    "versioned_store",
    "window_store",
]
