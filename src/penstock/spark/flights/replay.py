"""Replay: send the tables and the flights to the cluster as fast as it takes them.

**How partitions stay together.** A stream has one watermark, the newest event time seen in any partition
minus a delay, and a row older than it is dropped as late. Flights are in order within each partition, so a
row can only be late when its partition is behind another one in event time. Two rules bound that:

1. Flights are dealt to the partitions in turns. A source that takes the same share of each partition's
   backlog, as Spark's does under `maxOffsetsPerTrigger`, then stays at the same event time in all of them.
   (Partitioned by carrier or origin, shares of the year differ: measured, up to eleven days apart.)
2. Each day is acknowledged before the next is sent. So whenever a partition holds a flight of one day, all
   hold every flight of the days before, wherever a batch boundary falls while the replay runs.

Together they keep partitions within a day of each other; `pipeline.WATERMARK_DELAY` is two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.spark.flights.data import Frames, Record, end_record, table_records
from penstock.spark.flights.topics import LOG_LEVEL_CRITICAL, Topics

DAY_MS = 86_400_000
DELIVERY_TIMEOUT_S = 60.0
QUEUE_MESSAGES = 100_000
PARTITION_BY_KEY = -1


class DeliveryFailed(RuntimeError):
    """The cluster did not acknowledge a record in time, or refused it."""


class Replay:
    """An idempotent producer for the demo's records; `sent` counts the flights acknowledged so far."""

    def __init__(self, bootstrap_servers: str, topics: Topics, partitions: int) -> None:
        self._topics = topics
        self._partitions = partitions
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": LOG_LEVEL_CRITICAL,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # Kafka's own, so that any client finds a table's key
                "linger.ms": 5,
                "queue.buffering.max.messages": QUEUE_MESSAGES,
            }
        )
        self.sent = 0

    def send_tables(self, frames: Frames) -> int:
        """Send the four tables, keyed; return the number of rows."""
        tables = {
            self._topics.airlines: table_records(frames.airlines, ["carrier"]),
            self._topics.airports: table_records(frames.airports, ["faa"]),
            self._topics.planes: table_records(frames.planes, ["tailnum"]),
            self._topics.weather: table_records(frames.weather, ["origin", "time_hour"]),
        }
        for topic, records in tables.items():
            for record in records:
                self._send(topic, record)
        self._flush()
        return sum(map(len, tables.values()))

    def send_flights(
        self, records: Sequence[Record], on_progress: Callable[[int], None] | None = None
    ) -> None:
        """Send flights in event-time order, one day at a time; `on_progress` gets `sent` after each day."""
        for _day, flights in groupby(records, key=lambda record: record.timestamp_ms // DAY_MS):
            self.sent += self._send_in_turns(flights)
            if on_progress is not None:
                on_progress(self.sent)

    def send_end(self, timestamp_ms: int) -> None:
        """Send the end event to every partition.

        Only once the stream has read every flight: the end event moves the watermark past all of them.
        """
        for partition in range(self._partitions):
            self._send(self._topics.flights, end_record(timestamp_ms), partition)
        self._flush()

    def _send_in_turns(self, records: Iterable[Record]) -> int:
        count = 0
        for count, record in enumerate(records, start=1):
            self._send(self._topics.flights, record, (self.sent + count) % self._partitions)
        self._flush()
        return count

    def _send(self, topic: str, record: Record, partition: int = PARTITION_BY_KEY) -> None:
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=self._on_delivery,
                    timestamp=record.timestamp_ms,
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def _flush(self) -> None:
        unacknowledged = self._producer.flush(DELIVERY_TIMEOUT_S)
        if self._failures:
            raise DeliveryFailed(str(self._failures[0])) from KafkaException(self._failures[0])
        if unacknowledged:
            raise DeliveryFailed(f"{unacknowledged} records not acknowledged in {DELIVERY_TIMEOUT_S:g} s")
