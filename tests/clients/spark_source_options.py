"""One program with both sources, Spark's own and ours: the same rows, batches and offsets for each option.

`spark_connector_session` runs it. Each case takes seconds, so the gate runs some and the long run all.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from long_run import IS_LONG

FORMATS = ("kafka", "penstock")
FIRST, SECOND = "matrix-a", "matrix-b"
COLUMNS = ("topic", "partition", "offset", "value", "key", "timestamp", "timestampType")


def by_partition(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(n): number for n, number in enumerate(numbers)}})


# Records have the times 1000 to 1029 in partition 0 of the first topic, and 1000 to 1009 in the others.
BATCHES: list[dict[str, str]] = [
    {"subscribe": f"{FIRST},{SECOND}"},
    {"assign": json.dumps({FIRST: [1]})},
    {"subscribe": FIRST, "startingTimestamp": "1005", "endingTimestamp": "1008"},
    {
        "subscribe": FIRST,
        "startingTimestamp": "1002",
        "startingOffsetsByTimestamp": by_partition(FIRST, 1004, 1004),
        "startingOffsets": by_partition(FIRST, 8, 8),
    },
    {"subscribe": FIRST, "minPartitions": "7"},
    {
        "subscribe": FIRST,
        "groupIdPrefix": "p",
        "kafkaConsumer.pollTimeoutMs": "20000",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "5",
        "failOnDataLoss": "false",
        "kafka.client.id": "matrix",
        "kafka.isolation.level": "read_uncommitted",
        "kafka.fetch.max.bytes": "1000000",
    },
]
MORE_BATCHES: list[dict[str, str]] = [
    {"subscribe": FIRST},
    {"subscribePattern": "matrix-.*"},
    {"subscribe": FIRST, "startingOffsets": by_partition(FIRST, 5, -2)},
    {"subscribe": FIRST, "endingOffsets": by_partition(FIRST, 5, -1)},
    {"subscribe": FIRST, "startingOffsetsByTimestamp": by_partition(FIRST, 1020, 1003)},
    {"subscribe": FIRST, "startingTimestamp": "1015", "startingOffsetsByTimestampStrategy": "latest"},
    {"subscribe": FIRST, "includeHeaders": "true"},
    {"subscribePattern": "matrix"},
    {"subscribe": FIRST, "startingOffsets": "EARLIEST", "endingOffsets": "Latest"},
    {"subscribe": FIRST, "startingTimestamp": "1005", "endingTimestamp": "99999"},
    {"subscribe": FIRST, "endingOffsetsByTimestamp": by_partition(FIRST, 1020, 1003)},
    {
        "subscribe": FIRST,
        "startingOffsetsByTimestamp": by_partition(FIRST, 1004, 1004),
        "startingOffsets": by_partition(FIRST, 8, 8),
    },
    {"subscribe": FIRST, "maxRecordsPerPartition": "4"},
    {"subscribe": FIRST, "maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1s"},
]

STREAMS: list[dict[str, str]] = [
    {"subscribe": f"{FIRST},{SECOND}", "maxOffsetsPerTrigger": "9"},
    {"subscribe": FIRST, "maxOffsetsPerTrigger": "12", "minOffsetsPerTrigger": "9"},
    {"subscribe": FIRST, "minPartitions": "5", "maxRecordsPerPartition": "3"},
    {"subscribe": FIRST},
    {"subscribe": FIRST, "maxOffsetsPerTrigger": "7"},
    {"assign": json.dumps({FIRST: [1]}), "maxOffsetsPerTrigger": "3"},
    {"subscribe": FIRST, "startingOffsets": by_partition(FIRST, 5, -2), "maxOffsetsPerTrigger": "20"},
    {"subscribePattern": "matrix-.*", "maxOffsetsPerTrigger": "2"},
    {"subscribe": FIRST, "minOffsetsPerTrigger": "1000"},
    {"subscribe": FIRST, "maxOffsetsPerTrigger": "12", "minOffsetsPerTrigger": "9", "maxTriggerDelay": "0s"},
]
# Our source pins a moving start in a separate batch, so batches differ, but rows and last offsets do not.
MOVING_STARTS: list[dict[str, str]] = [
    {"subscribe": FIRST, "startingTimestamp": "1005"},
    {"subscribe": FIRST, "startingOffsets": "latest"},
    {"subscribe": FIRST, "startingOffsetsByTimestamp": by_partition(FIRST, 1020, 1003)},
]

REFUSED_BATCHES: list[dict[str, str]] = [
    {},
    {"subscribe": FIRST, "subscribePattern": "x"},
    {"subscribe": " , "},
    {"subscribe": FIRST, "startingOffsets": "latest"},
    {"subscribe": FIRST, "endingOffsets": "earliest"},
    {"subscribe": FIRST, "startingOffsets": by_partition(FIRST, -1, 0)},
    {"subscribe": FIRST, "startingOffsets": by_partition(FIRST, 3)},
    {
        "subscribe": FIRST,
        "startingOffsets": by_partition(FIRST, 9, 0),
        "endingOffsets": by_partition(FIRST, 8, 5),
    },
    {"subscribe": FIRST, "startingTimestamp": "99999"},
    {"subscribe": FIRST, "minPartitions": "0"},
    {"subscribe": FIRST, "maxRecordsPerPartition": "0"},
    {"subscribe": FIRST, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
    {"subscribe": FIRST, "kafka.auto.offset.reset": "earliest"},
    {"subscribe": FIRST, "kafka.key.deserializer": "x"},
    {"subscribe": FIRST, "kafka.enable.auto.commit": "true"},
    {"subscribe": FIRST, "kafka.interceptor.classes": "x"},
    {"subscribe": "matrix-nowhere"},
]
REFUSED_STREAMS: list[dict[str, str]] = [
    {"subscribe": FIRST, "endingOffsets": "latest"},
    {"subscribe": FIRST, "endingOffsetsByTimestamp": by_partition(FIRST, 1, 1)},
]


class Matrix:
    def __init__(self, spark: SparkSession, servers: str, scratch: Path) -> None:
        self.spark = spark
        self.servers = {"kafka.bootstrap.servers": servers}
        self.scratch = scratch

    def read(self, source: str, options: dict[str, str]) -> DataFrame:
        return self.spark.read.format(source).options(**self.servers, **options).load()

    def stream(self, source: str, options: dict[str, str], checkpoint: str) -> dict[int, list[tuple]]:
        """The rows of each batch of one run up to the current end."""
        batches: dict[int, list[tuple]] = {}

        def collect(batch: DataFrame, batch_id: int) -> None:
            batches[batch_id] = rows_of(batch)

        given = {"startingOffsets": "earliest"} | options
        query = (
            self.spark.readStream.format(source)
            .options(**self.servers, **given)
            .load()
            .writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(self.scratch / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return batches

    def kept(self, checkpoint: str) -> list[dict[str, dict[str, int]]]:
        """The offsets of every batch in a checkpoint, without other metadata."""
        log = self.scratch / checkpoint / "offsets"
        found = []
        for name in sorted((p.name for p in log.iterdir() if p.name.isdigit()), key=int):
            last = (log / name).read_text().splitlines()[-1]
            offsets = json.loads(re.sub(r"^[^{]*", "", last))
            found.append({topic: parts for topic, parts in offsets.items() if not topic.startswith("@")})
        return found


def rows_of(frame: DataFrame) -> list[tuple]:
    columns = [*COLUMNS, *(["headers"] if "headers" in frame.columns else [])]
    return sorted(repr(tuple(row)) for row in frame.select(*columns).collect())


differences: list[str] = []


def compare(name: str, options: dict[str, str], results: list[object]) -> None:
    """Record a difference, for the report at the end."""
    theirs, ours = results
    if theirs != ours:
        differences.append(f"{name} {options}:\n{FORMATS[0]}: {theirs!s:.700}\n{FORMATS[1]}: {ours!s:.700}")


def refused(act: Callable[[], object]) -> bool:
    try:
        act()
    except Exception:
        return True
    return False


def fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    config = {"retention.ms": "-1"}
    topics = [NewTopic(FIRST, 2, 1, config=config), NewTopic(SECOND, 1, 1, config=config)]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": servers})
    for topic, partition, count in ((FIRST, 0, 30), (FIRST, 1, 10), (SECOND, 0, 10)):
        for n in range(count):
            value = None if n == 7 else f"{topic}-{partition}-{n}"
            headers = [("h", b"%d" % n), ("none", None)] if n % 3 == 0 else None
            key = str(n % 4) if n % 2 else None
            producer.produce(topic, value, key, partition, timestamp=1000 + n, headers=headers)
    assert producer.flush(30) == 0


def check(spark: SparkSession, servers: str, scratch: Path) -> str:
    """Run all cases and return the results."""
    batches, streams = BATCHES, []
    moving_starts, refused_batches, refused_streams = [], [], []
    if IS_LONG:
        batches, streams = BATCHES + MORE_BATCHES, STREAMS
        moving_starts, refused_batches, refused_streams = MOVING_STARTS, REFUSED_BATCHES, REFUSED_STREAMS
    fill(servers)
    matrix = Matrix(spark, servers, scratch)
    for options in batches:
        compare("batch", options, [rows_of(matrix.read(source, options)) for source in FORMATS])
    schemas: list[StructType] = [matrix.read(source, BATCHES[0]).schema for source in FORMATS]
    assert schemas[0] == schemas[1]
    for number, options in enumerate(streams):
        results = []
        for source in FORMATS:
            found = matrix.stream(source, options, f"{source}-{number}")
            results.append((found, matrix.kept(f"{source}-{number}")))
        compare("stream", options, results)
    for number, options in enumerate(moving_starts):
        results = []
        for source in FORMATS:
            found = matrix.stream(source, options, f"{source}-moving-{number}")
            rows = sorted(row for rows in found.values() for row in rows)
            results.append((rows, matrix.kept(f"{source}-moving-{number}")[-1]))
        compare("stream", options, results)
    for options in refused_batches:
        answers = [refused(lambda s=source, o=options: rows_of(matrix.read(s, o))) for source in FORMATS]
        compare("refused", options, [answers, [True, True]])
    for options in refused_streams:
        answers = [refused(lambda s=source, o=options: matrix.stream(s, o, f"{s}-no")) for source in FORMATS]
        compare("refused", options, [answers, [True, True]])
    take_over(matrix)
    assert not differences, "\n".join(differences)
    count = sum(map(len, (batches, streams, moving_starts, refused_batches, refused_streams)))
    return f"both sources agree in {count} cases"


def take_over(matrix: Matrix) -> None:
    """Continue a query of Spark's own source with ours, on the same checkpoint."""
    options = {"subscribe": FIRST, "maxOffsetsPerTrigger": "25", "minOffsetsPerTrigger": "20"}
    before = matrix.stream("kafka", options, "taken-over")
    assert [len(rows) for rows in before.values()] == [24], "15 are left, too few for a batch"
    after = matrix.stream("penstock", {"subscribe": FIRST}, "taken-over")
    everything = sorted(row for rows in (*before.values(), *after.values()) for row in rows)
    assert everything == rows_of(matrix.read("kafka", {"subscribe": FIRST}))
