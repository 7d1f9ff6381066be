"""Records of tasks on their way to a real node: order, partitions, offsets, and records that are refused."""

from collections import defaultdict
from collections.abc import Collection, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.connections.cluster import Cluster as Connections
from penstock.client.connections.metadata import TopicPartition as Partition
from penstock.client.errors import ServerError, error_from
from penstock.connect.tasks.sending.delivery import OutgoingRecord, SenderClosed
from penstock.connect.tasks.sending.record_sender import RecordSender
from penstock.protocol.errors import ErrorCode
from penstock.protocol.murmur2 import partition_for_key
from penstock.testing import Cluster
from waiting import wait_until

COUNT = 2000
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


class Result:
    """What became of one record."""

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None
        self.error: Exception | None = None

    def acknowledged(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        self.place = (partition, offset)

    def failed(self, error: Exception) -> None:
        self.error = error


def create(cluster: Cluster, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)


def send(cluster: Cluster, records: list[OutgoingRecord], **properties: str) -> list[Result]:
    given = {"bootstrap.servers": cluster.bootstrap_servers}
    given |= {name.replace("_", "."): value for name, value in properties.items()}
    sender = RecordSender(given, create_topics=False)
    results = [Result() for _ in records]
    try:
        for record, result in zip(records, results, strict=True):
            sender.send(record, result)
        assert sender.flush(60)
    finally:
        sender.close()
    return results


def read(cluster: Cluster, topic: str, count: int) -> dict[int, list[tuple[bytes | None, bytes | None, int]]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[tuple[bytes | None, bytes | None, int]]] = defaultdict(list)
    for _ in range(count):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        found[partition].append((message.key(), message.value(), offset))
    consumer.close()
    return found


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_records_are_in_order_where_their_keys_belong(cluster: Cluster, compression: str) -> None:
    topic = f"ordered-{compression}"
    create(cluster, topic)
    keys = [f"k{number % 7}".encode() for number in range(COUNT)]
    records = [OutgoingRecord(topic, None, key, str(number).encode()) for number, key in enumerate(keys)]
    results = send(cluster, records, compression_type=compression, batch_size="2000")
    read_back = read(cluster, topic, COUNT)
    for number, (key, result) in enumerate(zip(keys, results, strict=True)):
        assert result.place is not None
        partition, offset = result.place
        assert partition == partition_for_key(key, PARTITIONS)
        assert read_back[partition][offset] == (key, str(number).encode(), offset)


def test_records_without_keys_fill_batches_of_several_partitions(cluster: Cluster) -> None:
    create(cluster, "keyless")
    records = [OutgoingRecord("keyless", None, None, b"v" * 50) for _ in range(COUNT)]
    results = send(cluster, records, batch_size="1000")
    assert all(result.place is not None for result in results)
    assert len({result.place for result in results}) == COUNT


def test_only_the_record_that_is_too_large_fails(cluster: Cluster) -> None:
    create(cluster, "small", **{"max.message.bytes": "1000"})
    sizes = [10, 10, 5000, 10, 10]
    records = [OutgoingRecord("small", 0, None, b"v" * size) for size in sizes]
    results = send(cluster, records, linger_ms="50")
    assert [result.error is None for result in results] == [True, True, False, True, True]
    assert [len(value or b"") for _, value, _ in read(cluster, "small", 4)[0]] == [10, 10, 10, 10]


def test_records_wait_for_their_cluster_until_the_sender_is_closed() -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "50", "retry.backoff.max.ms": "10"}
    sender, result = RecordSender(given), Result()
    sender.send(OutgoingRecord("t", 0, None, b"1"), result)
    assert not sender.flush(0.5)  # much longer than the timeout of requests
    assert result.error is None
    sender.close()
    assert "closed" in str(result.error)


def test_closing_ends_the_wait_before_a_batch_is_sent_again() -> None:
    node = Cluster()
    node.start()
    create(node, "interrupted")
    given = {"bootstrap.servers": node.bootstrap_servers}
    waits = {"retry.backoff.ms": "20000", "retry.backoff.max.ms": "20000"}
    sender, first, second = RecordSender({**given, **waits}), Result(), Result()
    sender.send(OutgoingRecord("interrupted", 0, None, b"1"), first)
    assert sender.flush(60)
    node.close()
    sender.send(OutgoingRecord("interrupted", 0, None, b"2"), second)
    assert not sender.flush(0.5)
    sender.close()
    assert isinstance(second.error, SenderClosed)


def test_a_partition_without_a_leader_does_not_stop_the_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, "headless")
    headless = Partition("headless", 1)
    find_leaders = Connections.find_leaders

    def find_without_one(
        self: Connections, partitions: Collection[Partition]
    ) -> tuple[dict[int, list[Partition]], dict[Partition, ServerError]]:
        led, failures = find_leaders(self, [tp for tp in partitions if tp != headless])
        if headless in partitions:
            failures[headless] = error_from(ErrorCode.LEADER_NOT_AVAILABLE, str(headless))
        return led, failures

    monkeypatch.setattr(Connections, "find_leaders", find_without_one)
    sender = RecordSender({"bootstrap.servers": cluster.bootstrap_servers})
    waiting, others = Result(), [Result() for _ in range(50)]
    sender.send(OutgoingRecord("headless", 1, None, b"1"), waiting)
    for result in others:
        sender.send(OutgoingRecord("headless", 0, None, b"0"), result)
    wait_until(lambda: all(result.place for result in others))
    assert (waiting.place, waiting.error) == (None, None)
    monkeypatch.undo()
    assert sender.flush(60)
    sender.close()
    assert waiting.place is not None


@pytest.mark.parametrize("partition", [None, 0])
def test_a_missing_topic_fails_its_records_and_no_others(cluster: Cluster, partition: int | None) -> None:
    topic = f"present-{partition}"
    create(cluster, topic)
    records = [OutgoingRecord("absent", partition, None, b"1"), OutgoingRecord(topic, None, None, b"2")]
    absent, present = send(cluster, records)
    assert "absent" in str(absent.error)
    assert present.place is not None


def test_a_record_for_a_missing_partition_fails_alone(cluster: Cluster) -> None:
    create(cluster, "three")
    partitions = [0, PARTITIONS + 4, 1, 2]
    records = [OutgoingRecord("three", partition, None, b"1") for partition in partitions]
    results = send(cluster, records, linger_ms="50")
    assert [result.error is None for result in results] == [True, False, True, True]
    assert f"three-{PARTITIONS + 4}" in str(results[1].error)


def test_a_topic_that_is_deleted_fails_its_own_records_only(cluster: Cluster) -> None:
    for topic in ("deleted", "kept"):
        create(cluster, topic)
    given = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": "200"}
    sender = RecordSender(given, create_topics=False)
    first, deleted, kept = (Result() for _ in range(3))
    sender.send(OutgoingRecord("deleted", 0, None, b"1"), first)
    assert sender.flush(60)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics(["deleted"])["deleted"].result(30)
    sender.send(OutgoingRecord("deleted", 0, None, b"2"), deleted)
    sender.send(OutgoingRecord("kept", 0, None, b"3"), kept)
    assert sender.flush(60)
    sender.close()
    assert first.place is not None
    assert "deleted-0" in str(deleted.error)
    assert kept.place is not None
