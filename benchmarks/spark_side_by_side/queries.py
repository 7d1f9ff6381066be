"""The query that Spark runs in each row; only the name of a format depends on the side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from spark_side_by_side.sides import PRODUCER_OPTIONS, Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True)
class Query:
    """One query, in the form that is sent to the process with the session.

    Args:
        kind: a name in `KINDS`, or ``streams``: an application of `penstock.streams`.
        topic: the topic to read, from its beginning. table: the topic that is joined.
        target: the topic to write to; without one, rows are counted and dropped.
        rows_per_batch: None reads everything in one batch.
        from_end: read only records that arrive from now on.
        settings: settings of the session while the query starts.
        formats: options for both source and sink.
    """

    kind: str
    topic: str
    target: str | None = None
    table: str | None = None
    rows_per_batch: int | None = None
    delivery: str | None = None
    from_end: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)


class Queries:
    """Starts queries in one session on one side."""

    def __init__(self, spark: SparkSession, side: Side, servers: str) -> None:
        self._spark = spark
        self._side = side
        self._servers = servers

    def start(self, query: Query, checkpoint: str, *, to_the_end: bool) -> StreamingQuery:
        """Start a query; with `to_the_end` it stops when it has read everything that exists."""
        before = {name: self._spark.conf.get(name, None) for name in query.settings}
        for name, value in query.settings.items():
            self._spark.conf.set(name, value)
        try:
            if query.kind == "streams":
                return self._start_application(query, checkpoint, to_the_end=to_the_end)
            writer = self._writer(query, checkpoint)
            return (writer.trigger(availableNow=True) if to_the_end else writer).start()
        finally:
            for name, old in before.items():
                if old is None:
                    self._spark.conf.unset(name)
                else:
                    self._spark.conf.set(name, old)

    def _writer(self, query: Query, checkpoint: str) -> DataStreamWriter:
        rows = KINDS[query.kind](self._stream(query), self._table(query))
        writer = rows.writeStream.option("checkpointLocation", checkpoint)
        if query.target is None:
            return cast("DataStreamWriter", writer.format("noop"))
        delivery = {} if query.delivery is None else {"delivery": query.delivery}
        options = {"kafka.bootstrap.servers": self._servers, "topic": query.target, **PRODUCER_OPTIONS}
        options |= query.formats
        return cast("DataStreamWriter", writer.format(self._side.format).options(**options, **delivery))

    def _stream(self, query: Query) -> DataFrame:
        limit = {} if query.rows_per_batch is None else {"maxOffsetsPerTrigger": str(query.rows_per_batch)}
        return (
            self._spark.readStream.format(self._side.format)
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", query.topic)
            .option("startingOffsets", "latest" if query.from_end else "earliest")
            .options(**limit, **query.formats)
            .load()
        )

    def _table(self, query: Query) -> DataFrame | None:
        """Read the table once and cache it: a query would read it again in each batch, on either side."""
        if query.table is None:
            return None
        source = self._spark.read.format(self._side.format).option("kafka.bootstrap.servers", self._servers)
        rows = source.option("subscribe", query.table).load()
        return rows.selectExpr("key", "cast(substring(value, 1, 8) AS string) AS region").cache()

    def _start_application(self, query: Query, checkpoint: str, *, to_the_end: bool) -> StreamingQuery:
        from penstock.streams import App, long, raw

        assert query.target is not None
        app = App(f"count-{query.target}", key=raw, value=raw)
        counts = app.stream(query.topic).group_by_key().count(store="counts")
        counts.to_stream().to(query.target, value=long)
        limit = {} if query.rows_per_batch is None else {"maxOffsetsPerTrigger": str(query.rows_per_batch)}
        running = app.start(
            bootstrap_servers=self._servers,
            checkpoint=checkpoint,
            spark=self._spark,
            until="drained" if to_the_end else "stopped",
            shuffle_partitions=2,
            options=limit,
        )
        return running.query


def _as_it_is(rows: DataFrame, _: DataFrame | None) -> DataFrame:
    return rows


def _record(rows: DataFrame, _: DataFrame | None) -> DataFrame:
    return rows.select("key", "value")


def _value(rows: DataFrame, _: DataFrame | None) -> DataFrame:
    return rows.select("value")


def _filter_and_project(rows: DataFrame, _: DataFrame | None) -> DataFrame:
    text = rows.selectExpr("key", "cast(value AS string) AS text", "timestamp")
    half = text.where("substring(text, 8, 1) < '4'")
    return half.selectExpr("key", "cast(substring(text, 10, 6) AS int) AS amount", "timestamp")


def _windowed_count(rows: DataFrame, _: DataFrame | None) -> DataFrame:
    from pyspark.sql.functions import window

    timed = rows.select("key", "timestamp").withWatermark("timestamp", "10 seconds")
    return timed.groupBy(window("timestamp", "1 minute"), "key").count()


def _table_join(rows: DataFrame, table: DataFrame | None) -> DataFrame:
    assert table is not None
    return rows.select("key", "value", "timestamp").join(table, "key")


KINDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "read": _as_it_is,
    "copy": _record,
    "value": _value,
    "filter and project": _filter_and_project,
    "windowed count": _windowed_count,
    "table join": _table_join,
}
