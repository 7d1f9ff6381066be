"""A DataFrame as a source: its rows as blocks, which are read beside those of the topics in one query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import TimestampNTZType, TimestampType

from penstock.spark.streams.blocks.rows import PACKED, ROWS, row_batches
from penstock.spark.streams.tasks.worker import worker_for
from penstock.topology.errors import TopologyError
from penstock.topology.records import NO_HEADERS, Output
from penstock.topology.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """A DataFrame as a source: the columns to read, and the serdes of key and value.

    If ``value`` is None, all columns but the key and the timestamp form one dict.
    """

    frame: DataFrame
    key: str | None
    value: str | None
    timestamp: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]


def packed_frame(name: str, of: FrameColumns, plan_text: str) -> DataFrame:
    """Return the rows of a DataFrame as rows of the query."""
    frame = of.frame
    names = [column for column in (of.key, of.value, of.timestamp) if column is not None]
    missing = [column for column in names if column not in frame.columns]
    if missing:
        raise TopologyError(
            f"the DataFrame {name} has no column {', '.join(missing)}; it has {', '.join(frame.columns)}"
        )
    if not frame.isStreaming:
        raise TopologyError(
            f"the DataFrame {name} is a batch: a source of an application is read with readStream"
        )
    kind = frame.schema[of.timestamp].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise TopologyError(
            f"the column {of.timestamp} of the DataFrame {name} has the type {kind.simpleString()}, expected "
            "timestamp"
        )
    packer = _Packer(name, of.key, of.value, of.timestamp, of.key_serde, of.value_serde, plan_text)
    return frame.mapInArrow(packer, PACKED)


@dataclass(frozen=True, slots=True)
class _Packer:
    """Packs rows in the tasks that hold the DataFrame's rows."""

    name: str
    key: str | None
    value: str | None
    timestamp: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    plan_text: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        worker = worker_for(self.plan_text)
        context = TaskContext.get()
        assert context is not None, "a packer runs in a task"
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        stores, note = worker.global_stores_now()
        times_ms = pc.divide(table.column(self.timestamp).cast(pa.int64()), 1000)
        # Sort by time, as a DataFrame's partitions have no order. Rows of the same time keep their order.
        order = pc.sort_indices(pa.table({"time": times_ms}), [("time", "ascending")])
        outputs = self._records(table.take(order), times_ms.take(order).to_pylist())
        clock_ms = time.time_ns() // 1_000_000
        rows = worker.map_side.frame_rows(self.name, context.partitionId(), outputs, clock_ms, stores, note)
        yield from row_batches(rows, ROWS)

    def _records(self, table: pa.Table, times_ms: list[int | None]) -> list[Output]:
        keys = [None] * table.num_rows if self.key is None else table.column(self.key).to_pylist()
        if self.value is None:
            values = table.drop_columns([c for c in (self.key, self.timestamp) if c is not None]).to_pylist()
        else:
            values = table.column(self.value).to_pylist()
        records: list[Output] = []
        for key, value, at_ms in zip(keys, values, times_ms, strict=True):
            if at_ms is None:
                raise TopologyError(f"a row of the DataFrame {self.name} has null in {self.timestamp}")
            key_bytes = self._bytes(self.key_serde, key, "key")
            value_bytes = self._bytes(self.value_serde, value, "value")
            records.append((self.name, None, key_bytes, value_bytes, at_ms, NO_HEADERS))
        return records

    def _bytes(self, serde: Serde[Any], value: Any, what: str) -> bytes | None:
        if value is None:
            return None
        try:
            return serde.serialize(value)
        except Exception as error:
            raise TopologyError(f"the {what} of a row of the DataFrame {self.name}: {error}") from error
