"""Read topics to their ends with a third-party client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.demo.topics import LOG_LEVEL_CRITICAL

READ_TIMEOUT_S = 60.0
POLL_S = 0.1
RECORDS_MAX = 50_000


class LogRecord(NamedTuple):
    """A record as any consumer sees it; a `value` of None is a tombstone."""

    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int


def read_topics(bootstrap_servers: str, topics: Iterable[str]) -> dict[str, list[LogRecord]]:
    """All committed records of topics as they are now, by topic, one partition after the other.

    Raises KafkaException, also if records are deleted while they are read.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL_CRITICAL,
            "group.id": "penstock-demo-check",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
    )
    try:
        offsets: dict[tuple[str, int], tuple[int, int]] = {}
        for topic in topics:
            for partition in sorted(consumer.list_topics(topic, READ_TIMEOUT_S).topics[topic].partitions):
                place = TopicPartition(topic, partition)
                offsets[topic, partition] = consumer.get_watermark_offsets(place, READ_TIMEOUT_S)
        found = _read(consumer, offsets)
    finally:
        consumer.close()
    logs: dict[str, list[LogRecord]] = {topic: [] for topic, _ in offsets}
    for (topic, _), records in found.items():
        logs[topic] += records
    return logs


def _read(
    consumer: Consumer, offsets: dict[tuple[str, int], tuple[int, int]]
) -> dict[tuple[str, int], list[LogRecord]]:
    """The records between two offsets of each partition."""
    found: dict[tuple[str, int], list[LogRecord]] = {place: [] for place in offsets}
    ends = {place: end for place, (start, end) in offsets.items() if start < end}
    unread = set(ends)
    consumer.assign([TopicPartition(*place, offsets[place][0]) for place in unread])
    while unread:
        for message in consumer.consume(RECORDS_MAX, POLL_S):
            if message.error() is not None:
                raise KafkaException(message.error())
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            if offset < ends[topic, partition]:
                record = LogRecord(partition, message.key() or b"", message.value(), message.timestamp()[1])
                found[topic, partition].append(record)
        # Positions also pass the markers of transactions, which are no records.
        for at in consumer.position([TopicPartition(*place) for place in unread]):
            if at.offset >= ends[at.topic, at.partition]:
                unread.discard((at.topic, at.partition))
    return found
