"""Streams applications in Python: Kafka Streams' operations and semantics, run by Spark.

This package holds the API that users write applications with: `App`, `TopologyTest`, windows, stores, and in
`dsl` streams and tables. What an operation adds to the topology is in `construction`. What the operations
compute belongs in `penstock.topology`, and running on Spark in `penstock.spark`. Begin with `App`; test with
`TopologyTest`. The guide is `docs/streams.md`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.extras import needs_extra
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
    ErrorPolicy,
    InvalidRecord,
    RecordFailed,
    SerdeError,
    StreamsError,
    TopologyError,
)
from penstock.topology.operators.process import Processor, ProcessorContext
from penstock.topology.operators.suppress import BufferFull
from penstock.topology.records import Record
from penstock.topology.vectorised import vectorised

if TYPE_CHECKING:
    from penstock.spark.launching.java import JavaNotFound
    from penstock.spark.observing.observation import MetricsPortTaken
    from penstock.spark.sink.ownership import CheckpointOutdated
    from penstock.spark.streams.running.application import RunningApp
    from penstock.spark.streams.running.checkpoint import CheckpointMismatch
    from penstock.spark.streams.running.failures import ApplicationFailed
    from penstock.spark.streams.running.preparation import InternalTopicMismatch, MissingTopics
    from penstock.spark.streams.running.reset import CheckpointOfAnother, Reset, reset
    from penstock.spark.streams.stages.frames import NeedsRunningApp

__all__ = [
    "App",
    "ApplicationFailed",
    "BufferFull",
    "CheckpointMismatch",
    "CheckpointOfAnother",
    "CheckpointOutdated",
    "CoPartitioningError",
    "CogroupedStream",
    "ErrorPolicy",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "InternalTopicMismatch",
    "InvalidRecord",
    "JavaNotFound",
    "MetricsPortTaken",
    "MissingTopics",
    "NeedsRunningApp",
    "Processor",
    "ProcessorContext",
    "Record",
    "RecordFailed",
    "Reset",
    "RunningApp",
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
    "reset",
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

_MODULES: Final = {
    "ApplicationFailed": "penstock.spark.streams.running.failures",
    "CheckpointMismatch": "penstock.spark.streams.running.checkpoint",
    "CheckpointOfAnother": "penstock.spark.streams.running.reset",
    "CheckpointOutdated": "penstock.spark.sink.ownership",
    "InternalTopicMismatch": "penstock.spark.streams.running.preparation",
    "JavaNotFound": "penstock.spark.launching.java",
    "MetricsPortTaken": "penstock.spark.observing.observation",
    "MissingTopics": "penstock.spark.streams.running.preparation",
    "NeedsRunningApp": "penstock.spark.streams.stages.frames",
    "Reset": "penstock.spark.streams.running.reset",
    "RunningApp": "penstock.spark.streams.running.application",
    "reset": "penstock.spark.streams.running.reset",
}


def __getattr__(name: str) -> object:
    """Import what needs Spark on its first use: applications are written and tested without Spark."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("spark", f"penstock.streams.{name}"):
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
