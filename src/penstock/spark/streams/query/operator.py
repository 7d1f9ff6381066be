"""The stateful operator: Spark's transformWithState around `penstock.spark.streams.tasks.runner`.

A group is a partition, and a row is a packed block. Spark calls the operator once for each partition and
batch, and keeps its changes to the map of pages if the batch succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.spark.streams.planning.grouping import partition_of
from penstock.spark.streams.state.map_pages import MapPages
from penstock.spark.streams.tasks.worker import worker_for
from penstock.spark.workers.memory import seldom_collecting, settle_worker

_PAGE_KEY: Final = StructType([StructField("key", BinaryType(), False)])
_PAGE: Final = StructType([StructField("page", BinaryType(), False)])
_PAGES: Final = "pages"
"""The name of the state in the checkpoint, so it must not change."""


class StreamsOperator(StatefulProcessor):
    """The operator, which Spark sends to the workers with every batch; it holds the plan as text."""

    def __init__(self, plan: str) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        settle_worker()
        self._pages = handle.getMapState(_PAGES, _PAGE_KEY, _PAGE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        worker = worker_for(self._plan)
        packed = [bytes(row.block) for row in rows]
        with seldom_collecting():
            stores = worker.global_stores_of(packed)
            packed_rows = worker.tasks.run(partition_of(key[0]), packed, MapPages(self._pages), stores)
        for group, block in packed_rows:
            yield Row(group=group, block=block)
