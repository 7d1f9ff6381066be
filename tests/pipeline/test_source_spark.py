"""The source inside Spark: the same rows as another client reads, and streams that restart."""

import shutil
import uuid
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import AnalysisException, StreamingQueryException

pytestmark = pytest.mark.spark


@pytest.fixture
def options(servers):
    return {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


class Collected:
    """A foreachBatch sink that keeps rows by batch id, as an idempotent sink does; ``runs``: attempts."""

    def __init__(self):
        self.batches = {}
        self.runs = []

    def __call__(self, batch, batch_id):
        rows = [(row.topic, row.partition, row.offset, bytes(row.value)) for row in batch.collect()]
        self.runs.append((batch_id, sorted(rows)))
        self.batches[batch_id] = sorted(rows)

    @property
    def values(self):
        return sorted((row[3] for rows in self.batches.values() for row in rows), key=int)


@pytest.fixture
def stream(spark, options, tmp_path):
    """Run a stream over the available records into a sink, always with the same checkpoint."""

    def run(sink, **more):
        query = (
            spark.readStream.format("penstock")
            .options(**options | {key: str(value) for key, value in more.items()})
            .load()
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(60)
        finally:
            query.stop()
        return query

    return run


def test_a_batch_read_equals_what_was_produced(spark, options, make_topic, produce):
    topic = make_topic(2)
    produce(topic, numbers(0, 500), partition=0, key=b"k", timestamp=1_700_000_000_123)
    produce(topic, [None, b""], partition=1, headers=[("h", b"x"), ("h", None)])
    frame = spark.read.format("penstock").options(**options, subscribe=topic, includeHeaders="true").load()
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset) for row in rows] == [(0, n) for n in range(500)] + [(1, 0), (1, 1)]
    assert [bytes(row.value) for row in rows[:500]] == numbers(0, 500)
    assert {(bytes(row.key), row.timestamp.timestamp(), row.timestampType) for row in rows[:500]} == {
        (b"k", 1_700_000_000.123, 0)
    }
    assert rows[0].headers is None
    assert [(row.value, row.key) for row in rows[500:]] == [(None, None), (bytearray(), None)]
    assert [(header.key, header.value) for header in rows[501].headers] == [("h", b"x"), ("h", None)]


def test_a_view_of_sql_reads_a_topic(spark, servers, make_topic, produce):
    topic = make_topic(1)
    produce(topic, [b"v"])
    given = f"'kafka.bootstrap.servers' '{servers}', subscribe '{topic}'"
    spark.sql(f"CREATE TEMPORARY VIEW a_topic USING penstock OPTIONS ({given})")
    try:
        [row] = spark.sql("SELECT CAST(value AS STRING) AS value FROM a_topic").collect()
    finally:
        spark.sql("DROP VIEW a_topic")
    assert row["value"] == "v"


def test_a_table_of_sql_says_that_spark_lost_its_options(spark, servers, make_topic):
    given = f"'kafka.bootstrap.servers' '{servers}', subscribe '{make_topic(1)}'"
    spark.sql(f"CREATE TABLE lost USING penstock OPTIONS ({given})")
    try:
        with pytest.raises(AnalysisException, match="use CREATE TEMPORARY VIEW"):
            spark.sql("SELECT * FROM lost").collect()
    finally:
        spark.sql("DROP TABLE lost")


def test_mistakes_are_told_before_the_query_runs(spark, servers):
    reader = spark.read.format("penstock").option("bootstrap.servers", servers)
    with pytest.raises(AnalysisException, match="unknown option 'subscribes'; did you mean 'subscribe'"):
        reader.options(subscribe="a", subscribes="b").load()


def test_a_stream_restarts_from_its_checkpoint(stream, make_topic, produce, tmp_path):
    """Restart after a clean stop, and after a hard one: the sink has the batch but the checkpoint has not."""
    topic = make_topic(2)
    sink = Collected()
    produce(topic, numbers(0, 50), partition=0)
    produce(topic, numbers(50, 90), partition=1)
    stream(sink, subscribe=topic)
    produce(topic, numbers(90, 120), partition=0)
    stream(sink, subscribe=topic)
    assert sink.values == numbers(0, 120)
    assert len(sink.runs) == len(sink.batches) == 2

    commits = tmp_path / "checkpoint" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink(missing_ok=True)
    produce(topic, numbers(120, 130), partition=1)
    stream(sink, subscribe=topic)
    assert sink.runs[2] == sink.runs[1], "batch 1 runs again with the same rows"
    assert sink.values == numbers(0, 130)


def test_a_stream_from_the_end_loses_nothing_when_its_first_batch_dies(stream, make_topic, produce, tmp_path):
    topic = make_topic()
    sink = Collected()
    produce(topic, numbers(0, 5))
    stream(sink, subscribe=topic, startingOffsets="latest")
    assert sink.batches == {0: []}
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    produce(topic, numbers(5, 9))
    stream(sink, subscribe=topic, startingOffsets="latest")
    assert sink.values == numbers(5, 9)


def test_a_limit_cuts_the_stream_into_batches_and_new_topics_join(stream, make_topic, produce):
    prefix = uuid.uuid4().hex
    first = make_topic(2, name=f"{prefix}-a")
    produce(first, numbers(0, 20), partition=0)
    produce(first, numbers(20, 30), partition=1)
    sink = Collected()
    stream(sink, subscribePattern=f"{prefix}-.*", maxOffsetsPerTrigger=12)
    assert [len(rows) for rows in sink.batches.values()] == [12, 12, 6]
    produce(make_topic(name=f"{prefix}-b"), numbers(30, 35))
    stream(sink, subscribePattern=f"{prefix}-.*", maxOffsetsPerTrigger=12)
    assert sink.values == numbers(0, 35)


def test_lost_records_stop_the_stream_unless_told_otherwise(stream, make_topic, produce, servers):
    topic = make_topic()
    sink = Collected()
    produce(topic, numbers(0, 5))
    stream(sink, subscribe=topic)
    produce(topic, numbers(5, 20))
    partition = TopicPartition(topic, 0, 12)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_records([partition])[partition].result(30)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        stream(sink, subscribe=topic)
    stream(sink, subscribe=topic, failOnDataLoss="false")
    assert sink.values == numbers(0, 5) + numbers(12, 20)


def test_spark_finds_the_source_by_itself():
    """Spark looks for `pyspark_penstock`; the other tests here never register anything."""
    import pyspark_penstock

    assert pyspark_penstock.DefaultSource.name() == "penstock"
    assert Path(pyspark_penstock.__file__).parent.name == "pyspark_penstock"
