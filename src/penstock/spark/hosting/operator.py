"""The stateful operator of a host's query: each group is one partition of one member.

Spark keeps a map of pages for each group, as for an application in its own query. The rows name the member's
plan, which determines how they are processed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from penstock.spark.hosting.failures import blaming
from penstock.spark.hosting.groups import PASSING, number_of, partition_of
from penstock.spark.hosting.plan import HostPlan, forget, host_from_text, worker_of
from penstock.spark.streams.blocks.packing import Block, Kind
from penstock.spark.streams.blocks.rows import PackedRow
from penstock.spark.streams.state.map_pages import MapPages
from penstock.spark.workers.memory import seldom_collecting, settle_worker

HOSTED: Final = StructType(
    [
        StructField("group", LongType(), False),
        StructField("plan", StringType(), False),
        StructField("block", BinaryType(), False),
    ]
)
_PAGE_KEY: Final = StructType([StructField("key", BinaryType(), False)])
_PAGE: Final = StructType([StructField("page", BinaryType(), False)])
_PAGES: Final = "pages"
"""The name of the state in the checkpoint, so it must not change."""


class HostOperator(StatefulProcessor):
    """The operator, which Spark sends to the workers with every batch; it holds the host as text."""

    def __init__(self, host: str) -> None:
        self._host = host

    def init(self, handle: StatefulProcessorHandle) -> None:
        settle_worker()
        self._pages = handle.getMapState(_PAGES, _PAGE_KEY, _PAGE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        group = key[0]
        number = number_of(group)
        named = [(row.plan, bytes(row.block)) for row in rows]
        if number == PASSING:
            for plan, block in named:
                yield Row(group=group, plan=plan, block=block)
            return
        host = host_from_text(self._host)
        packed = [block for _, block in named]
        if Block.unpack(packed[0]).kind is Kind.CLEAR:
            self._pages.clear()
            forget(host, number)
            return
        plan = named[0][0]
        for goes_to, block in self._run(host, number, plan, partition_of(group), packed):
            yield Row(group=goes_to, plan=plan, block=block)

    def _run(
        self, host: HostPlan, number: int, plan: str, partition: int, packed: list[bytes]
    ) -> list[PackedRow]:
        with blaming(number), seldom_collecting():
            worker = worker_of(host, plan)
            stores = worker.global_stores_of(packed)
            return worker.tasks.run(partition, packed, MapPages(self._pages), stores)
