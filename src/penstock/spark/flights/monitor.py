"""What can be seen of the job while it runs: throughput, lag, and the worst delays so far.

The figures come from two places that any user has: the query's progress reports, and the cluster, asked
like any client. The delays are read back from the topic as the pipeline publishes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.flights.topics import LOG_LEVEL_CRITICAL, Topics

WORST_KEPT = 8
REQUEST_TIMEOUT_S = 10.0
RESULTS_WAIT_S = 0.1
POLL_RECORDS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Delay:
    """The most delayed flight of one hour, origin and carrier."""

    minutes: int
    flight: str
    origin: str
    destination: str
    hour: str
    airline: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the job at one moment. `watermark` is ISO 8601 in UTC, empty before the first batch.

    `rows_per_second` is that of the last batch, and once nothing waits that of the whole run.
    """

    elapsed_s: float
    batches: int
    rows_read: int
    lag: int
    rows_per_second: float
    watermark: str
    results: int
    worst: Sequence[Delay]


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all batches of a query: rows read, and rows dropped because their window had closed."""

    batches: int
    rows_read: int
    rows_late: int


def totals(query: StreamingQuery) -> Totals:
    """Add up the query's progress reports (Spark keeps the last hundred)."""
    batches = {int(progress["batchId"]): progress for progress in query.recentProgress}
    return Totals(
        batches=len(batches),
        rows_read=sum(int(progress["numInputRows"] or 0) for progress in batches.values()),
        rows_late=sum(
            int(operator["numRowsDroppedByWatermark"])
            for progress in batches.values()
            for operator in progress["stateOperators"]
        ),
    )


class Monitor:
    """Watches one query. `snapshot` is cheap enough for a few calls a second; not thread-safe."""

    def __init__(
        self, query: StreamingQuery, bootstrap_servers: str, topics: Topics, partitions: int
    ) -> None:
        self._query = query
        self._topics = topics
        self._partitions = partitions
        self._started_s = time.monotonic()
        self._results = 0
        self._worst: list[Delay] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": LOG_LEVEL_CRITICAL,
                "group.id": "penstock-demo-view",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign([TopicPartition(topics.delays, p, OFFSET_BEGINNING) for p in range(partitions)])

    def snapshot(self, all_results: bool = False) -> Snapshot:
        """Collect what is new and return the state now; raises the query's error if it has failed.

        With `all_results` it waits for every record that is in the delays topic already.
        """
        error = self._query.exception()
        if error is not None:
            raise error
        while self._read_results() and all_results:
            pass
        last = self._query.lastProgress
        progress: dict[str, Any] = json.loads(last.json) if last is not None else {}
        rows_read, lag = self._position(progress)
        elapsed_s = time.monotonic() - self._started_s
        return Snapshot(
            elapsed_s=elapsed_s,
            batches=progress["batchId"] + 1 if progress else 0,
            rows_read=rows_read,
            lag=lag,
            rows_per_second=progress.get("processedRowsPerSecond", 0.0) if lag else rows_read / elapsed_s,
            watermark=str(progress.get("eventTime", {}).get("watermark", "")),
            results=self._results,
            worst=tuple(self._worst),
        )

    def close(self) -> None:
        self._consumer.close()

    def _read_results(self) -> int:
        messages = self._consumer.consume(POLL_RECORDS_MAX, timeout=RESULTS_WAIT_S)
        values = [message.value() for message in messages if message.error() is None]
        rows = [json.loads(value) for value in values if value is not None]
        self._results += len(rows)
        delays = [_delay(row) for row in rows if row["delay_max"] is not None]
        self._worst = nlargest(WORST_KEPT, [*self._worst, *delays], key=lambda delay: delay.minutes)
        return len(rows)

    def _position(self, progress: Mapping[str, Any]) -> tuple[int, int]:
        """Rows of the flights topic that finished batches have read, and those that wait."""
        end_offset = progress["sources"][0]["endOffset"] if progress else None
        read_to = end_offset[self._topics.flights] if end_offset else {}
        rows_read = lag = 0
        for partition in range(self._partitions):
            start, end = self._consumer.get_watermark_offsets(
                TopicPartition(self._topics.flights, partition), REQUEST_TIMEOUT_S
            )
            position = read_to.get(str(partition), start)
            rows_read += position - start
            lag += end - position
        return rows_read, lag


def _delay(row: Mapping[str, Any]) -> Delay:
    return Delay(
        minutes=row["delay_max"],
        flight=f"{row['carrier']} {row['worst_flight']}",
        origin=row["origin"],
        destination=row["worst_destination"],
        hour=row["hour"],
        airline=row["airline"],
    )
