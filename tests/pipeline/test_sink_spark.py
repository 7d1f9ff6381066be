"""The sink, in a task of our own and inside Spark: each row arrives where a Kafka client would put it."""

import uuid

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.errors import PySparkException

from penstock.client.errors import RecordTooLarge
from penstock.protocol.compression import Codec
from penstock.spark.sink.columns import SinkColumns
from penstock.spark.sink.options import parse_sink
from penstock.spark.sink.partitioner import RowRefused
from penstock.spark.sink.writer import WriteTask
from to_the_end import TO_THE_END

VALUE = SinkColumns(value="value", key=None, headers=None, topic=None, partition=None, timestamp=None)
KEYED = SinkColumns(value="value", key="key", headers=None, topic=None, partition=None, timestamp=None)


@pytest.fixture
def consume(servers):
    """Read all messages of a topic with a client that is not ours."""

    def read(topic, partitions=1):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused"} | TO_THE_END)
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        messages, ends = [], 0
        while ends < partitions:
            message = consumer.poll(10)
            assert message is not None, "the end of the topic was not reached in 10 s"
            if message.error() is None:
                messages.append(message)
            else:
                ends += 1
        consumer.close()
        return messages

    return read


@pytest.fixture
def write(servers):
    """Run a task over Arrow batches made of dictionaries."""

    def run(columns, *batches, **options):
        given = {"bootstrap.servers": servers} | {key.replace("__", "."): v for key, v in options.items()}
        return WriteTask(parse_sink(given), columns).run(iter([pa.record_batch(batch) for batch in batches]))

    return run


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_rows_arrive_in_order_whatever_the_compression(write, make_topic, consume, codec):
    topic = make_topic()
    batches = [{"value": [f"{i}-{j}" for j in range(100)]} for i in range(5)]
    done = write(VALUE, *batches, topic=topic, kafka__compression__type=codec, kafka__batch__size="1024")
    assert done.rows == 500
    assert [m.value().decode() for m in consume(topic)] == [v for batch in batches for v in batch["value"]]


def test_a_topic_that_the_broker_creates_is_logged(write, make_topic, consume, caplog):
    existing, misspelled = make_topic(), f"misspelled-{uuid.uuid4().hex}"
    for topic in (existing, misspelled, misspelled):
        write(VALUE, {"value": ["a"]}, topic=topic)
    expected = f"topic did not exist, the broker created it topic={misspelled} partitions=1"
    assert [r.getMessage() for r in caplog.records if "did not exist" in r.getMessage()] == [expected]


@pytest.mark.parametrize("acks", ["all", "1"])
def test_tasks_that_follow_in_one_worker_write_once_each(write, make_topic, consume, acks):
    topic = make_topic()
    for i in range(3):
        write(VALUE, {"value": [f"task {i}"]}, topic=topic, kafka__acks=acks)
    assert [m.value().decode() for m in consume(topic)] == ["task 0", "task 1", "task 2"]


def test_keys_go_where_librdkafkas_murmur2_partitioner_puts_them(write, make_topic, consume, servers):
    theirs, ours = make_topic(7), make_topic(7)
    keys = [f"key-{i}" for i in range(300)] + ["", "ü", "日本"]
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(theirs, b"v", key.encode())
    assert producer.flush(30) == 0
    write(KEYED, {"key": keys, "value": ["v"] * len(keys)}, topic=ours)

    def places(topic):
        return {message.key(): message.partition() for message in consume(topic, 7)}

    assert places(ours) == places(theirs)


def test_each_row_may_name_its_topic(write, make_topic, consume):
    first, second = make_topic(), make_topic()
    columns = SinkColumns("value", None, None, topic="topic", partition=None, timestamp=None)
    write(columns, {"topic": [first, second, first], "value": ["1", "2", "3"]})
    assert [m.value() for m in consume(first)] == [b"1", b"3"]
    assert [m.value() for m in consume(second)] == [b"2"]
    with pytest.raises(RowRefused, match="column 'topic' is null in a row"):
        write(columns, {"topic": [first, None], "value": ["1", "2"]})


def test_a_row_that_cannot_be_written_fails_the_task(write, make_topic):
    placed = SinkColumns("value", None, None, topic=None, partition="partition", timestamp=None)
    with pytest.raises(RowRefused, match="holds 5, but topic"):
        write(placed, {"value": ["x"], "partition": pa.array([5], pa.int32())}, topic=make_topic(2))
    small = make_topic(max_message_bytes="2000")
    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes"):
        write(VALUE, {"value": ["x" * 3000]}, topic=small)
    write(VALUE, {"value": ["the next task of the same worker"]}, topic=small)


@pytest.mark.spark
def test_a_batch_write_round_trip(spark, servers, make_topic):
    topic = make_topic(3)
    options = {"kafka.bootstrap.servers": servers}
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "cast(id % 10 as string) key",
        "cast(id as string) value",
        "array(named_struct('key', 'id', 'value', cast(cast(id as string) as binary))) headers",
        "timestamp_millis(1700000000000 + id) timestamp",
    )
    rows.write.format("penstock").options(**options, topic=topic).mode("append").save()
    found = spark.read.format("penstock").options(**options, subscribe=topic, includeHeaders="true").load()
    read = {int(row.value): row for row in found.collect()}
    assert sorted(read) == list(range(1000))
    for number, row in read.items():
        assert bytes(row.key) == b"%d" % (number % 10)
        assert [(h.key, bytes(h.value)) for h in row.headers] == [("id", b"%d" % number)]
        assert round(row.timestamp.timestamp() * 1000) == 1_700_000_000_000 + number
    places = {(bytes(row.key), row.partition) for row in read.values()}
    assert len(places) == 10, "a key has one partition"


@pytest.mark.spark
def test_a_stream_from_topic_to_topic(spark, servers, make_topic, produce, consume, tmp_path):
    source, target = make_topic(2), make_topic(2)
    options = {"kafka.bootstrap.servers": servers}

    def run():
        stream = spark.readStream.format("penstock").options(
            **options, subscribe=source, startingOffsets="earliest", includeHeaders="true"
        )
        query = (
            stream.load()
            .writeStream.format("penstock")
            .options(**options, topic=target, checkpointLocation=str(tmp_path), **{"kafka.acks": "all"})
            .queryName("copy")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    produce(source, [b"a", b"b"], partition=0, headers=[("h", b"x")], timestamp=1_700_000_000_000)
    run()
    produce(source, [b"c", None], partition=1, key=b"k")
    run()
    copies = sorted(consume(target, 2), key=lambda m: (m.partition(), m.offset()))
    assert [(m.partition(), m.key(), m.value(), m.headers()) for m in copies] == [
        (0, None, b"a", [("h", b"x")]),
        (0, None, b"b", [("h", b"x")]),
        (1, b"k", b"c", None),
        (1, b"k", None, None),
    ]
    assert copies[0].timestamp()[1] == 1_700_000_000_000


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id AS value", {"topic": "t"}, "column 'value' has the type bigint, expected string or binary"),
        ("'x' AS key", {"topic": "t"}, "column 'value' is missing"),
        ("'x' AS value", {}, "no topic to write to"),
        ("'x' AS value", {"topic": "t", "kafka.ack": "1"}, "did you mean 'kafka.acks'"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(spark, servers, columns, options, message):
    writer = spark.range(1).selectExpr(columns).write.format("penstock").option("bootstrap.servers", servers)
    with pytest.raises(PySparkException, match=message):
        writer.options(**options).mode("append").save()
