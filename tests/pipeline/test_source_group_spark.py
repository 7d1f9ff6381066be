"""Queries that a consumer group follows, in Spark: the lag that tools report, restarts, lag in the progress.

`test_source_group` tests the requests on Apache Kafka as well; this module does with PENSTOCK_CLUSTERS=1.
"""

import json
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from kafka import KafkaAdminClient
from pyspark.errors import StreamingQueryException

from penstock.spark import lag

pytestmark = pytest.mark.spark


KAFKA = pytest.param("kafka_servers", marks=[pytest.mark.kafka, pytest.mark.long], id="kafka")


@pytest.fixture(scope="module", params=[pytest.param("servers_of_ours", id="penstock"), KAFKA])
def servers(request):
    return request.getfixturevalue(request.param)


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


@pytest.fixture
def start(spark, servers, group, tmp_path):
    """Start a query that counts its rows, and stop it at the end."""
    queries = []

    def run(sink=lambda batch, batch_id: batch.count(), **options):
        given = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest", "group.id": group}
        trigger = options.pop("trigger", {"availableNow": True})
        given |= {name: str(value) for name, value in options.items()}
        query = (
            spark.readStream.format("penstock")
            .options(**given)
            .load()
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        queries.append(query)
        return query

    yield run
    for query in queries:
        query.stop()


def test_lag_tools_see_a_run_to_the_present_end(start, make_topic, produce, group, servers):
    topic = make_topic(2)
    produce(topic, numbers(0, 20), partition=0)
    produce(topic, numbers(20, 25), partition=1)
    assert start(subscribe=topic, maxOffsetsPerTrigger=10).awaitTermination(60)
    described = subprocess.run(
        [
            sys.executable,
            "-m",
            "penstock",
            "group",
            "describe",
            group,
            "--bootstrap",
            servers,
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    shown = json.loads(described.stdout)
    assert shown["members"] == []
    offsets = {offset["partition"]: (offset["committed"], offset["lag"]) for offset in shown["offsets"]}
    assert offsets == {0: (20, 0), 1: (5, 0)}
    kafka_python = KafkaAdminClient(bootstrap_servers=servers)
    found = kafka_python.list_group_offsets(group)[group]
    kafka_python.close()
    assert {tp.partition: offset.offset for tp, offset in found.items()} == {0: 20, 1: 5}


def test_the_group_is_level_when_a_running_query_goes_idle(start, make_topic, produce, committed):
    topic = make_topic()
    rows = []

    def collect(batch, batch_id):
        rows.extend(batch.collect())

    query = start(collect, subscribe=topic, trigger={"processingTime": "0 seconds"})
    for end in (5, 12, 30):
        produce(topic, numbers(len(rows), end))
        deadline = time.monotonic() + 60
        while len(rows) < end:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        query.processAllAvailable()
        assert committed() == {0: end}, "within the trigger that found nothing new"


def test_an_idle_query_commits_its_offsets_again(start, make_topic, produce, admin, group, committed):
    topic = make_topic()
    produce(topic, numbers(0, 5))
    query = start(subscribe=topic, groupRecommitInterval="300ms", trigger={"processingTime": "0 seconds"})
    query.processAllAvailable()
    assert committed() == {0: 5}
    admin.delete_consumer_groups([group])[group].result(30)  # as if they had expired
    deadline = time.monotonic() + 60
    while committed() != {0: 5}:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_query_that_fails_leaves_its_group_at_the_last_batch_that_was_done(
    start, make_topic, produce, committed
):
    topic = make_topic()

    def fails_at_ten(batch, batch_id):
        if any(row.offset >= 10 for row in batch.collect()):
            raise RuntimeError("the sink is down")

    produce(topic, numbers(0, 10))
    assert start(fails_at_ten, subscribe=topic).awaitTermination(60)
    produce(topic, numbers(10, 15))
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        start(fails_at_ten, subscribe=topic).awaitTermination(60)
    assert committed() == {0: 10}
    assert start(subscribe=topic).awaitTermination(60)
    assert committed() == {0: 15}


def test_a_query_starts_where_a_group_stands(start, make_topic, produce, group, admin, committed):
    topic = make_topic()
    produce(topic, numbers(0, 10))
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 7)])
    admin.alter_consumer_group_offsets([moved])[group].result(30)
    rows = []

    def collect(batch, batch_id):
        rows.extend(bytes(row.value) for row in batch.collect())

    assert start(collect, subscribe=topic, startingOffsets="committed").awaitTermination(60)
    assert rows == numbers(7, 10)
    assert committed() == {0: 10}


def test_a_group_in_use_stops_the_query_and_is_named(start, make_topic, group, servers):
    topic = make_topic()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "client.id": "intruder"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        consumer.poll(0.05)
        assert time.monotonic() < deadline
    with pytest.raises(StreamingQueryException, match=rf"consumer group '{group}' has 1 live member"):
        start(subscribe=topic).awaitTermination(60)
    consumer.close()


def test_a_topic_created_again_between_runs_is_lost_data(start, make_topic, produce, admin):
    topic = make_topic()
    produce(topic, numbers(0, 3))
    assert start(subscribe=topic).awaitTermination(60)
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 60
    while topic in admin.list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    make_topic(name=topic)
    produce(topic, numbers(100, 108))
    with pytest.raises(StreamingQueryException, match=f"topic '{topic}' was deleted and created again"):
        start(subscribe=topic).awaitTermination(60)
    rows = []

    def collect(batch, batch_id):
        rows.extend(bytes(row.value) for row in batch.collect())

    assert start(collect, subscribe=topic, failOnDataLoss="false").awaitTermination(60)
    assert rows == numbers(100, 108), "from its beginning"


def test_the_progress_tells_the_lag_of_every_partition(start, make_topic, produce):
    topic = make_topic(2)
    produce(topic, numbers(0, 20), partition=0)
    produce(topic, numbers(20, 30), partition=1)
    query = start(subscribe=topic, maxOffsetsPerTrigger=12)
    assert query.awaitTermination(60)
    behind = [lag(progress) for progress in query.recentProgress if progress["numInputRows"]]
    assert [found.total for found in behind] == [18, 6, 0]
    assert behind[0].partitions == {(topic, 0): 12, (topic, 1): 6}
    assert lag(json.dumps({"sources": []})).total == 0
