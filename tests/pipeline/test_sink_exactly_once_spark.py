"""Exactly once inside Spark: streams, jobs, and restarted queries that find a half-done batch."""

import json
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.protocol.api_keys import ApiKey
from penstock.testing import Cluster
from to_the_end import TO_THE_END
from wire_proxy import Fate, WireProxy

pytestmark = pytest.mark.spark


@pytest.fixture
def committed(servers: str) -> Callable[..., list[list[bytes]]]:
    """The values in each partition of a topic, up to its end, as a `read_committed` client reads them."""

    def read(topic: str, partitions: int = 1, *, of: str = servers) -> list[list[bytes]]:
        consumer = Consumer(
            {
                "bootstrap.servers": of,
                "group.id": "unused",
                "isolation.level": "read_committed",
            }
            | TO_THE_END
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        values: list[list[bytes]] = [[] for _ in range(partitions)]
        ends = 0
        while ends < partitions:
            message = consumer.poll(10)
            assert message is not None, "a transaction is open"
            if message.error() is None:
                values[message.partition()].append(message.value())
            else:
                ends += 1
        consumer.close()
        return values

    return read


@pytest.fixture
def copy(spark: SparkSession, servers: str, tmp_path: Path) -> Callable[..., str]:
    """Run a query that copies a topic exactly once until it has caught up, and return its id."""

    def run(source: str, target: str, *, reads: str = servers, writes: str = servers) -> str:
        rows = (
            spark.readStream.format("penstock")
            .options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="4")
            .option("kafka.bootstrap.servers", reads)
            .option("group.id", f"group-of-{source}")
            .load()
        )
        query = (
            rows.selectExpr("key", "value", "partition")
            .writeStream.format("penstock")
            .options(topic=target, delivery="exactly-once")
            .option("kafka.bootstrap.servers", writes)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        return str(query.id)

    return run


def group_offset(servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=20)
    consumer.close()
    return int(found.offset)


def marker_of(servers: str, query_id: str, topic: str) -> dict[str, Any]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"penstock-sink-{query_id}"})
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=20)
    consumer.close()
    fields: dict[str, Any] = json.loads(found.metadata)
    return fields


def forget_last_commit(checkpoint: Path) -> int:
    """Delete the last commit; return the number of the batch that Spark will run again."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    return last


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("reads", "writes"), [("kafka", "kafka"), ("penstock", "kafka"), ("kafka", "penstock")]
)
def test_apache_kafka_is_read_and_written(copy, committed, servers, kafka_servers, reads, writes, tmp_path):
    """A group in another cluster cannot join the transaction: its offsets follow when the batch is done."""
    clusters = {"kafka": kafka_servers, "penstock": servers}
    source, target = f"source-{uuid.uuid4()}", f"target-{uuid.uuid4()}"
    for cluster, topic in ((clusters[reads], source), (clusters[writes], target)):
        admin = AdminClient({"bootstrap.servers": cluster})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": clusters[reads]})
    ways = {"reads": clusters[reads], "writes": clusters[writes]}
    expected: list[bytes] = []
    for count in (10, 3):
        values = [b"%d" % number for number in range(len(expected), len(expected) + count)]
        for value in values:
            producer.produce(source, value, partition=0)
        assert producer.flush(20) == 0
        expected += values
        query_id = copy(source, target, **ways)
        assert committed(target, of=clusters[writes]) == [expected]
        assert group_offset(clusters[reads], f"group-of-{source}", source) == len(expected)
        last = forget_last_commit(tmp_path / "checkpoint")
        assert group_offset(clusters[writes], f"penstock-sink-{query_id}", target) == last + 1


def test_a_batch_is_published_once_however_often_it_runs(
    make_topic, produce, copy, committed, servers, tmp_path
):
    """Spark runs the last batch again, as after a crash between EndTxn and Spark's commit log."""
    source, target = make_topic(), make_topic()
    large = [b"%03d" % number + b"x" * 400_000 for number in range(10)]
    produce(source, large, partition=0)
    query_id = copy(source, target)
    assert committed(target) == [large]
    assert group_offset(servers, f"group-of-{source}", source) == 10
    marker = group_offset(servers, f"penstock-sink-{query_id}", target)
    checkpoint = tmp_path / "checkpoint"
    assert marker == forget_last_commit(checkpoint) + 1
    produce(source, [b"later"], partition=0)
    assert copy(source, target) == query_id
    assert committed(target) == [[*large, b"later"]]
    fields = marker_of(servers, query_id, target)
    assert re.fullmatch("[0-9a-f]{12}", fields["driver"])
    assert fields["past_drivers"] == [], "plans and commits are of one driver, whatever processes they run in"
    assert group_offset(servers, f"group-of-{source}", source) == 11
    assert list((checkpoint / "penstock" / "staging").iterdir()) == []


def test_a_checkpoint_that_lags_behind_the_cluster_is_refused(make_topic, produce, copy, committed, tmp_path):
    source, target = make_topic(), make_topic()
    produce(source, [b"1", b"2"], partition=0)
    copy(source, target)
    checkpoint, older = tmp_path / "checkpoint", tmp_path / "older"
    shutil.copytree(checkpoint, older)
    produce(source, [b"3"], partition=0)
    copy(source, target)
    shutil.rmtree(checkpoint)
    shutil.move(older, checkpoint)
    produce(source, [b"4"], partition=0)
    with pytest.raises(PySparkException, match="the checkpoint is an older copy"):
        copy(source, target)
    assert committed(target) == [[b"1", b"2", b"3"]]


def test_a_marker_that_is_gone_stops_the_query(make_topic, produce, copy, committed, tmp_path, servers):
    source, target = make_topic(), make_topic()
    produce(source, [b"1"], partition=0)
    copy(source, target)
    state = tmp_path / "checkpoint" / "penstock" / "sink.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"marker_topic": source}))
    produce(source, [b"2"], partition=0)
    with pytest.raises(PySparkException, match="no longer knows which batch the query published last"):
        copy(source, target)
    state.unlink()
    copy(source, target)
    assert committed(target) == [[b"1", b"2"]]


def test_a_job_is_written_as_a_whole_or_not_at_all(spark, servers, make_topic, committed, tmp_path):
    target = make_topic(2)
    options = {"kafka.bootstrap.servers": servers, "topic": target, "delivery": "exactly-once"}

    def refuse(batches: Iterator[object]) -> Iterator[object]:
        for batch in batches:
            if batch.num_rows and batch["number"][0].as_py() >= 500:
                raise ValueError("this row will not do")
            yield batch

    rows = spark.range(0, 1000, 1, 2).selectExpr("id AS number", "cast(id AS string) value")
    broken = rows.mapInArrow(refuse, rows.schema)
    with pytest.raises(PySparkException, match="this row will not do"):
        broken.write.format("penstock").options(**options).mode("append").save()
    assert committed(target, 2) == [[], []]
    staging = tmp_path / "staging"
    large = rows.selectExpr("value || repeat('x', 4000) AS value")
    large.write.format("penstock").options(**options, stagingLocation=str(staging)).mode("append").save()
    found = [value.strip(b"x") for values in committed(target, 2) for value in values]
    assert sorted(map(int, found)) == list(range(1000))
    assert list(staging.iterdir()) == []


def test_a_repeated_foreach_batch_writes_its_topic_once(
    spark, servers, make_topic, produce, committed, tmp_path
):
    """An aggregation in update mode, written to a topic beside a table; a batch fails between the two."""
    source, target = make_topic(), make_topic()
    table = tmp_path / "table"
    failing = [1]

    def write(batch, batch_id):
        rows = batch.selectExpr("value AS key", "concat(value, ' ', count) AS value")
        (
            rows.write.format("penstock")
            .options(topic=target, delivery="exactly-once", txnAppId="counts", txnVersion=batch_id)
            .option("kafka.bootstrap.servers", servers)
            .mode("append")
            .save()
        )
        if batch_id in failing:
            failing.remove(batch_id)
            raise ValueError("between topic and table")
        rows.write.mode("overwrite").json(str(table / str(batch_id)))

    def run():
        rows = (
            spark.readStream.format("penstock")
            .options(subscribe=source, startingOffsets="earliest")
            .option("kafka.bootstrap.servers", servers)
            .load()
        )
        query = (
            rows.groupBy(rows.value.cast("string").alias("value"))
            .count()
            .writeStream.outputMode("update")
            .foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()

    produce(source, [b"a", b"b", b"a"])
    run()
    produce(source, [b"a"])
    with pytest.raises(PySparkException, match="between topic and table"):
        run()
    assert sorted(committed(target)[0]) == [b"a 2", b"a 3", b"b 1"]
    run()
    produce(source, [b"b"])
    run()
    [found] = committed(target)
    assert sorted(found) == [b"a 2", b"a 3", b"b 1", b"b 2"]
    assert sorted(row.value.encode() for row in spark.read.json(f"{table}/*").collect()) == sorted(found)


def test_a_stream_without_a_checkpoint_of_its_own_is_refused(spark, servers, make_topic, tmp_path):
    stream = spark.readStream.format("rate").load().selectExpr("cast(value AS string) value")
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        query = (
            stream.writeStream.format("penstock")
            .options(topic=make_topic(), delivery="exactly-once")
            .option("kafka.bootstrap.servers", servers)
            .trigger(availableNow=True)
            .start()
        )
        with pytest.raises(
            PySparkException, match="needs the option 'checkpointLocation' on the query itself"
        ):
            query.awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_a_query_stopped_while_it_publishes_has_published_once(spark, tmp_path):
    """EndTxn is held back while stop() is called: the commit ends anyway, whether Spark records it or not."""
    proxy = WireProxy()
    node = Cluster({"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap_servers}"})
    with proxy, node:
        proxy.target = node.bootstrap_servers
        servers = {"bootstrap.servers": proxy.bootstrap_servers}
        admin = AdminClient(servers)
        for created in admin.create_topics([NewTopic(name, 1, 1) for name in ("in", "out")]).values():
            created.result(60)
        producer = Producer(servers)
        for value in (b"1", b"2", b"3"):
            producer.produce("in", value)
        assert producer.flush(20) == 0
        rows = spark.readStream.format("penstock").options(
            **servers, subscribe="in", startingOffsets="earliest"
        )
        sink = (
            rows.load()
            .select("value")
            .writeStream.format("penstock")
            .options(**servers, topic="out", delivery="exactly-once", checkpointLocation=str(tmp_path))
        )
        proxy.plan(ApiKey.END_TXN, Fate.HOLD)
        query = sink.start()
        deadline = time.monotonic() + 60
        while not proxy.met:
            assert time.monotonic() < deadline, query.exception()
            time.sleep(0.05)
        threading.Timer(1.0, proxy.release).start()
        query.stop()
        proxy.release()
        again = sink.trigger(availableNow=True).start()
        assert again.awaitTermination(60)
        consumer = Consumer({**servers, "group.id": "c", "isolation.level": "read_committed"})
        consumer.assign([TopicPartition("out", 0, 0)])
        messages = consumer.consume(3, timeout=60) + consumer.consume(1, timeout=2)
        values = [message.value() for message in messages]
        consumer.close()
        assert values == [b"1", b"2", b"3"]
