"""The data source ``penstock-host``: the source and the sink of a host's query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.spark.hosting.counting import OutputsSeen, WrittenFile, blaming_owner
from penstock.spark.hosting.operator import HOSTED
from penstock.spark.hosting.plan import HostPlan, host_from_text
from penstock.spark.hosting.roster import RosterFile
from penstock.spark.hosting.source import HostReader
from penstock.spark.sink.checkpoint import GroupOffsets, OffsetEntry, SinkState
from penstock.spark.sink.exactly_once import ExactlyOnceStreamWriter
from penstock.spark.sink.staged import TaskStaged
from penstock.spark.streams.query.sink import COLUMNS, Unpacking
from penstock.spark.workers.ending import end_quietly
from penstock.spark.workers.memory import settle_worker

NAME: Final = "penstock-host"
HOST: Final = "host"


class HostDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return HOSTED

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        end_quietly()
        return HostReader(self.options[HOST])

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        settle_worker()
        writer = HostWriter(host_from_text(self.options[HOST]))
        writer.recover()
        return writer


class HostWriter(ExactlyOnceStreamWriter):
    """The sink of a host: it commits all members' outputs and offsets in one transaction."""

    def __init__(self, host: HostPlan) -> None:
        super().__init__(host.sink, COLUMNS, host.driver)
        self._marker_topic = host.driver.topic
        self._written = WrittenFile(host.location)
        self._roster = RosterFile(host.location)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        seen = OutputsSeen()
        outputs = Unpacking(seen.blocks(iterator))
        with seen.blaming_writer():
            report = self.stage(outputs.rows(), seen.note_batch)
        return seen.added_to(outputs.with_times(report))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with blaming_owner(messages):
            super().commit(messages, batchId)
        self._written.add(messages, batchId)

    def _groups_of(self, entry: OffsetEntry) -> Iterable[GroupOffsets]:
        """Leave out members that failed after the batch was planned: it runs again without them."""
        starts = {member.number: member.starts for member in self._roster.read().members}
        return (
            group
            for group in entry.groups
            if group.member is not None and starts.get(group.member.number) == group.member.starts
        )

    def _first_state(self, reports: Sequence[TaskStaged], batch_id: int, cluster_id: str | None) -> SinkState:
        """Return a state that keeps the marker under the host's own topic: members' topics may be deleted."""
        return SinkState(batch_id, self._marker_topic, cluster_id)
