"""Spark's own Kafka connector on a node: batch and streaming, both ways; see `spark_connector_session`."""

from pathlib import Path

from pyspark.sql import SparkSession

from long_run import IS_LONG


def check(spark: SparkSession, servers: str, scratch: Path) -> str:
    """Use the connector in all ways and return the results."""
    kafka = {"kafka.bootstrap.servers": servers, "includeHeaders": "true"}
    rows = spark.range(0, 2000, 1, 2).selectExpr(
        "cast(id % 7 as string) key",
        "cast(id as string) value",
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) headers",
    )
    columns = ("cast(key as string)", "cast(value as string)", "headers")

    def read(source_format: str, topic: str):
        frame = spark.read.format(source_format).options(**kafka, subscribe=topic).load()
        return frame, frame.selectExpr(*columns)

    def stream(source_format: str, sink_format: str, source: str, target: str) -> None:
        frame = spark.readStream.format(source_format).options(
            **kafka, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="900"
        )
        sink = {"kafka.bootstrap.servers": servers, "topic": target, "kafka.compression.type": "lz4"}
        query = (
            frame.load()
            .selectExpr("key", "value", "headers")
            .writeStream.format(sink_format)
            .options(**sink, checkpointLocation=str(scratch / target))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert len(query.recentProgress) == 3, "2,000 records in batches of 900"

    def same(left, right) -> bool:
        return left.exceptAll(right).isEmpty() and right.exceptAll(left).isEmpty()

    rows.write.format("kafka").options(**kafka, topic="by-kafka").save()
    theirs, theirs_rows = read("kafka", "by-kafka")
    ours, _ = read("penstock", "by-kafka")
    assert same(theirs_rows, rows), "the connector reads what it wrote"
    assert theirs.dtypes == ours.dtypes, "one schema"
    assert same(theirs, ours), "every column of every record"

    directions = [("penstock", "kafka"), ("kafka", "penstock")]
    if IS_LONG:
        directions.append(("kafka", "kafka"))
    for source_format, sink_format in directions:
        topic = f"{source_format}-to-{sink_format}"
        stream(source_format, sink_format, "by-kafka", topic)
        assert same(read("kafka", topic)[1], rows), topic
        assert same(read("penstock", topic)[1], rows), topic
    return "the connector and the source agree"
