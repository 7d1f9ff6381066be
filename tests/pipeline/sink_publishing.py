"""Publish a batch of generated records in a process that may be killed, and read back the outcome."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.producing.producer import ProducerConfig
from penstock.client.reading.offsets import LATEST, IsolationLevel, list_offsets
from penstock.protocol.records import Record, encode_batch
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.publisher import Content, Outcome, Publication, Publisher
from to_the_end import TO_THE_END
from waiting import wait_until

TOPICS = ("out-a", "out-b")
PARTITIONS = 2
SOURCE = TopicPartition("in", 0)
SOURCE_GROUP = "source-group"
PATIENCE = {"retry.backoff.ms": "5", "retry.backoff.max.ms": "100"}


def connect(servers: str, **settings: str) -> Cluster:
    given = PATIENCE | {name.replace("_", "."): value for name, value in settings.items()}
    return Cluster(ClientConfig.from_properties({"bootstrap.servers": servers} | given))


def publisher(cluster: Cluster, query_id: str, timeout_ms: int = 60_000, driver_id: str = "") -> Publisher:
    return Publisher(cluster, ProducerConfig(), query_id, TOPICS[0], timeout_ms, driver_id)


def records_of(batch_id: int) -> Iterator[EncodedBatch]:
    """Two batches for each partition; each value contains the batch and its place in it."""
    for place in range(2):
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                record = Record(0, 1, b"key", b"%d/%d" % (batch_id, place))
                yield EncodedBatch(topic, partition, bytearray(encode_batch([record], transactional=True)))


def values_of(batch_ids: Sequence[int]) -> list[bytes]:
    """The values in each partition after these batches were published, in this order."""
    return [b"%d/%d" % (batch_id, place) for batch_id in batch_ids for place in range(2)]


def publication(
    batch_id: int,
    run_id: str,
    *,
    fingerprint: str = "",
    must_be_known: bool = False,
    records: Callable[[], Iterator[EncodedBatch]] | None = None,
) -> Publication:
    return Publication(
        batch_id,
        run_id,
        fingerprint or f"entry-{batch_id}",
        must_be_known,
        Content(
            [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)],
            records or (lambda: records_of(batch_id)),
            {SOURCE_GROUP: {SOURCE: 10 * (batch_id + 1)}},
        ),
    )


def publish(servers: str, query_id: str, batch_id: int, run_id: str) -> Outcome:
    with connect(servers) as cluster:
        return publisher(cluster, query_id).publish(publication(batch_id, run_id))


def committed_values(servers: str, topic: str, partitions: int = PARTITIONS) -> list[list[bytes]]:
    """The values of each partition, read to its end by a `read_committed` client that is not ours.

    Apache Kafka answers EndTxn before it has written the markers, so this waits for them.
    """
    with connect(servers) as cluster:
        wait_until(lambda: nothing_is_open(cluster, [topic], partitions))
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        | TO_THE_END
    )
    consumer.assign([ConfluentPartition(topic, number, 0) for number in range(partitions)])
    values: list[list[bytes]] = [[] for _ in range(partitions)]
    ends: set[int] = set()
    while len(ends) < partitions:
        message = consumer.poll(10)
        assert message is not None, "the end was not reached: a transaction is open"
        if message.error() is None:
            values[message.partition()].append(message.value())
        else:
            ends.add(message.partition())
    consumer.close()
    return values


def nothing_is_open(cluster: Cluster, topics: Iterable[str] = TOPICS, partitions: int = PARTITIONS) -> bool:
    """Return whether every partition's last stable offset is its end."""
    asked = {TopicPartition(topic, p): LATEST for topic in topics for p in range(partitions)}
    stable = list_offsets(cluster, asked, IsolationLevel.READ_COMMITTED)
    ends = list_offsets(cluster, asked)
    return {tp: found.offset for tp, found in stable.items()} == {tp: e.offset for tp, e in ends.items()}
