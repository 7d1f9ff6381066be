"""The Spark data source ``penstock``: `spark.read`, `readStream`, `write` and `writeStream` on topics.

Spark pickles this class by name and creates instances of it in its own processes on the driver and the
executors. The instances hold options only, and connect on first use.

Readers and writers are imported when they are needed. A process needs only one of them, and batch reads work
with versions of Spark that do not have the interfaces of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from penstock.client.settings import ConfigError
from penstock.spark.launching.versions import require_spark
from penstock.spark.source.options import SourceOptions, parse_batch, parse_general, parse_streaming
from penstock.spark.source.schema import source_schema
from penstock.spark.workers.ending import end_quietly
from penstock.spark.workers.memory import settle_worker

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )


class PenstockDataSource(DataSource):
    """The data source that Spark creates for ``format("penstock")``."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return source_schema(parse_general(self.options).layout)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.source.batch import BatchReader

        options = parse_batch(self.options, schema)
        _require_schema(schema, options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        require_spark("streaming reads with penstock need")
        from penstock.spark.source.stream import StreamReader

        end_quietly()
        options = parse_streaming(self.options, schema)
        _require_schema(schema, options)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        require_spark("writes with penstock need")
        from penstock.spark.sink.exactly_once import ExactlyOnceBatchWriter
        from penstock.spark.sink.options import parse_sink
        from penstock.spark.sink.writer import BatchWriter

        if overwrite:
            raise ConfigError('a topic cannot be overwritten, only appended to: use mode("append")')
        options = parse_sink(self.options)
        return (
            ExactlyOnceBatchWriter(options, schema)
            if options.is_exactly_once
            else BatchWriter(options, schema)
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        require_spark("streaming writes with penstock need")
        from penstock.spark.sink.exactly_once import ExactlyOnceStreamWriter
        from penstock.spark.sink.options import parse_sink
        from penstock.spark.sink.writer import StreamWriter

        settle_worker()
        options = parse_sink(self.options)
        if not options.is_exactly_once:
            return StreamWriter(options, schema)
        writer = ExactlyOnceStreamWriter(options, schema)
        writer.recover()
        return writer


def _require_schema(schema: StructType, options: SourceOptions) -> None:
    """Raise ConfigError if the user gave another schema: it cannot change the columns of a topic."""
    fixed = source_schema(options.layout)
    if [(f.name, f.dataType) for f in schema] != [(f.name, f.dataType) for f in fixed]:
        raise ConfigError(
            f"the schema of topics is fixed ({fixed.simpleString()}): remove .schema(...) and set the "
            "options valueFormat and valueSchema, or parse the column 'value' in the query"
        )
