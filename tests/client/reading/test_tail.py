"""A tail on nodes: partitions whose leader fails do not delay the others, and come back with it."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import UnknownPartition
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.offsets import EARLIEST, LATEST
from penstock.client.reading.tail import Tail
from penstock.protocol.records import decode_batches
from penstock.testing import Cluster

IN_TIME_S = 60.0
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers, of which each leads one partition of the topic t that has no other replica."""
    with Cluster(nodes=2, controllers=1) as cluster:
        admin = cluster.admin_client()
        leaders = [[node.node_id] for node in cluster.brokers]
        admin.create_topics([NewTopic("t", 2, replica_assignment=leaders)])["t"].result(30)
        yield cluster


def produce(cluster: Cluster, partition: int, value: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("t", value, partition=partition)
    assert producer.flush(IN_TIME_S) == 0


def tail_of(cluster: Cluster, offset: int, out_of_range: int = LATEST) -> Tail:
    config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers})
    return Tail(config, FetchConfig(), dict.fromkeys(PARTITIONS, offset), out_of_range)


def next_values(tail: Tail, count: int) -> list[tuple[int, bytes | None]]:
    """The partitions and values of the next records."""
    found: list[tuple[int, bytes | None]] = []
    deadline_s = time.monotonic() + IN_TIME_S
    while len(found) < count:
        assert time.monotonic() < deadline_s, found
        for tp, arrived in tail.poll(0.2).items():
            found += [(tp.partition, each.value) for span in arrived.spans for each in decode_batches(span)]
    return found


def test_a_failed_leader_delays_its_own_partitions_alone(cluster: Cluster) -> None:
    with tail_of(cluster, EARLIEST) as tail:
        produce(cluster, 0, "a")
        produce(cluster, 1, "b")
        assert sorted(next_values(tail, 2)) == [(0, b"a"), (1, b"b")]
        failed = cluster.brokers[0]
        failed.kill()
        for value in ("c", "d"):
            produce(cluster, 1, value)
            assert next_values(tail, 1) == [(1, value.encode())]
        failed.start()
        produce(cluster, 0, "e")
        assert next_values(tail, 1) == [(0, b"e")]


@pytest.mark.parametrize(("out_of_range", "expected"), [(EARLIEST, [b"a", b"b"]), (LATEST, [b"b"])])
def test_it_continues_where_asked_if_the_log_does_not_hold_the_offset(
    cluster: Cluster, out_of_range: int, expected: list[bytes]
) -> None:
    produce(cluster, 0, "a")
    with tail_of(cluster, 9, out_of_range) as tail:
        ends: set[TopicPartition] = set()
        values: list[bytes | None] = []
        while ends != set(PARTITIONS):
            for tp, arrived in tail.poll(0.2).items():
                values += [each.value for span in arrived.spans for each in decode_batches(span)]
                if arrived.is_at_end:
                    ends.add(tp)
        produce(cluster, 0, "b")
        values += [value for _, value in next_values(tail, 1)]
    assert values == expected


def test_a_deleted_topic_ends_it(cluster: Cluster) -> None:
    with tail_of(cluster, EARLIEST) as tail:
        tail.poll(0.2)
        cluster.admin_client().delete_topics(["t"])["t"].result(30)
        with pytest.raises(UnknownPartition, match=r"partition t-[01] does not exist"):
            next_values(tail, 1)
