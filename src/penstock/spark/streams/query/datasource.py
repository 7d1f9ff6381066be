"""The data source ``penstock-streams``: the source and the sink of every application's query."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.spark.streams.blocks.rows import PACKED
from penstock.spark.streams.planning.plan import StreamsPlan, plan_from_text
from penstock.spark.streams.query.sink import AtLeastOnceStreamsWriter, ExactlyOnceStreamsWriter
from penstock.spark.streams.query.source import StreamsReader
from penstock.spark.workers.ending import end_quietly
from penstock.spark.workers.memory import settle_worker

NAME: Final = "penstock-streams"
PLAN: Final = "plan"


class StreamsDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return PACKED

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        end_quietly()
        return StreamsReader(self.options[PLAN])

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        settle_worker()
        plan = self._plan
        if not plan.sink.is_exactly_once:
            return AtLeastOnceStreamsWriter(plan)
        writer = ExactlyOnceStreamsWriter(plan)
        writer.recover()
        return writer

    @property
    def _plan(self) -> StreamsPlan:
        return plan_from_text(self.options[PLAN])
