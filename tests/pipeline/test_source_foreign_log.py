"""Reading records of brokers, ours and Apache Kafka's, in Spark: every compression, and transactions."""

import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from to_the_end import TO_THE_END

pytestmark = pytest.mark.spark


@pytest.fixture(
    scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])]
)
def servers(request):
    if request.param == "kafka":
        return request.getfixturevalue("kafka_servers")
    return request.getfixturevalue("penstock_cluster").bootstrap_servers


@pytest.fixture
def topic(make_topic, servers):
    """Two partitions: one with batches of all compressions, one with committed and aborted transactions."""
    topic = make_topic(2, compression_type="producer")
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20})
        for n in range(40):
            at = 1_700_000_000_000 + 100 * number + n
            headers = [("codec", codec.encode()), ("none", None)] if n % 3 else None
            key = None if n % 5 == 0 else b"%d" % n
            value = None if n == 7 else b"%s-%d" % (codec.encode(), n) * 20
            producer.produce(topic, value, key, 0, timestamp=at, headers=headers)
        assert producer.flush(30) == 0
    writer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    writer.init_transactions(30)
    for number, is_kept in enumerate((True, False, True, False)):
        writer.begin_transaction()
        for n in range(10):
            writer.produce(topic, b"%d-%d" % (number, n), partition=1)
        writer.flush(30)
        (writer.commit_transaction if is_kept else writer.abort_transaction)(30)
    return topic


def consumed(servers, topic, isolation):
    """The records that another client reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": isolation,
        }
        | TO_THE_END
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(2)])
    rows, ended, deadline = [], set(), time.monotonic() + 30
    while len(ended) < 2:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            ended.add(message.partition())
            continue
        at = message.timestamp()[1]
        where = (message.partition(), message.offset())
        rows.append((*where, at, message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def read(frame):
    return sorted(
        (
            row.partition,
            row.offset,
            round(row.timestamp.timestamp() * 1000),
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            tuple((h.key, None if h.value is None else bytes(h.value)) for h in row.headers or ()),
        )
        for row in frame.collect()
    )


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_batch_read_is_what_another_client_reads(spark, servers, topic, isolation):
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
    }
    expected = consumed(servers, topic, isolation)
    assert len(expected) == 200 + (20 if isolation == "read_committed" else 40)
    found = read(spark.read.format("penstock").options(**options).load())
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert found == expected


def test_a_stream_is_what_another_client_reads(spark, servers, topic, tmp_path):
    rows, sizes = [], []

    def collect(batch, batch_id):
        found = read(batch)
        rows.extend(found)
        sizes.append(len(found))

    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "100",
    }
    query = (
        spark.readStream.format("penstock")
        .options(**options)
        .load()
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sorted(rows, key=lambda row: row[:2]) == consumed(servers, topic, "read_committed")
    assert len(sizes) == 3, "244 offsets, markers among them, by 100"
