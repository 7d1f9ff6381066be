"""The application over a few days of the scenario, in milliseconds, for several tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from penstock.demo.application import build
from penstock.demo.log import LogRecord
from penstock.demo.scenario import Record
from penstock.demo.topics import Topics
from penstock.streams import TopologyTest, raw

TOPICS = Topics("nyc")


def logs_of(records: Iterable[Record]) -> dict[str, list[LogRecord]]:
    """The input as it is read back: by topic and partition."""
    logs: dict[str, list[LogRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.partition):
        logs[record.topic].append(LogRecord(record.partition, record.key, record.value, record.timestamp_ms))
    return logs


def results_of(records: Iterable[Record], partitions: int) -> dict[str, list[LogRecord]]:
    """The records that the application writes, by topic."""
    app = build(TOPICS)
    test = TopologyTest(app, partitions=partitions)
    inputs = {topic: test.input(topic) for topic in TOPICS.inputs}
    for topic, partition, key, value, timestamp_ms in records:
        inputs[topic].pipe_bytes(key, value, timestamp=timestamp_ms, partition=partition)
    return {topic: _log(test, topic) for topic in TOPICS.results}


def _log(test: TopologyTest, topic: str) -> list[LogRecord]:
    output = test.output(topic, key=raw, value=raw)
    return [LogRecord(0, record.key, record.value, record.timestamp_ms) for record in output.read_all()]
