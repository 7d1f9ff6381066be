"""The records that a task reads, without Spark: ranges of several partitions, and its connections."""

import threading
import time

import pytest

from penstock.arrow.loss import DataLoss
from penstock.client.reading.fetcher import PartitionRange
from penstock.spark.source.options import parse_batch
from penstock.spark.source.read import read_ranges
from penstock.spark.workers import connections


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


@pytest.fixture
def options(servers, monkeypatch):
    monkeypatch.setattr(connections, "_readers", {})
    return lambda **more: parse_batch({"bootstrap.servers": servers, "subscribe": "any", **more})


def read(options, *ranges):
    """Read the ranges; return the values by partition."""
    found = {}
    for batch in read_ranges(options, ranges):
        for partition, value in zip(
            *(batch.column(name).to_pylist() for name in ("partition", "value")), strict=True
        ):
            found.setdefault(partition, []).append(value)
    return found


def idle_readers():
    return [reader for idle in connections._readers.values() for reader in idle]


def test_ranges_of_several_partitions_and_of_one_twice(options, make_topic, produce):
    topic = make_topic(3)
    for partition in range(3):
        produce(topic, numbers(100 * partition, 100 * partition + 50), partition=partition)
    found = read(
        options(**{"kafka.max.partition.fetch.bytes": "200"}),
        PartitionRange(topic, 0, 0, 20),
        PartitionRange(topic, 2, 10, 50),
        PartitionRange(topic, 0, 30, 40),
        PartitionRange(topic, 1, 5, 5),
    )
    assert found == {0: numbers(0, 20) + numbers(30, 40), 2: numbers(210, 250)}


def test_the_next_task_finds_the_connections_of_the_last(options, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 10))
    assert read(options(), PartitionRange(topic, 0, 0, 10)) == {0: numbers(0, 10)}
    (reader,) = idle_readers()
    connection = reader.fetcher._connections[1]
    assert read(options(), PartitionRange(topic, 0, 5, 10)) == {0: numbers(5, 10)}
    assert idle_readers() == [reader]
    assert reader.fetcher._connections[1] is connection


def test_a_task_that_is_given_up_leaves_nothing_to_the_next(options, make_topic, produce):
    topic = make_topic()
    produce(topic, [b"x" * 1000] * 3000)
    slow = options(**{"kafka.max.partition.fetch.bytes": "50000"})
    task = read_ranges(slow, [PartitionRange(topic, 0, 0, 3000)])
    next(task)
    task.close()
    assert read(slow, PartitionRange(topic, 0, 0, 3000)) == {0: [b"x" * 1000] * 3000}
    deadline = time.monotonic() + 60
    while any(thread.name.startswith("penstock-") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(idle_readers()) == 1


def test_a_task_that_fails_keeps_no_connections(options, servers, make_topic):
    gone = PartitionRange("never-there", 0, 0, 10)
    with pytest.raises(DataLoss, match=r"'never-there' does not exist|never-there-0 does not exist"):
        read(options(), gone)
    assert idle_readers() == []
    lenient = options(failOnDataLoss="false")
    assert read(lenient, gone) == {}
