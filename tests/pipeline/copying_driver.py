"""Copy topics exactly once, in a process that a test may kill.

python copying_driver.py SERVERS TOPICS TARGET CHECKPOINT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.launching.session import build_session


def start_copy(
    spark: SparkSession, servers: str, subscribe: str, target: str, checkpoint: str, *, to_the_end: bool
) -> StreamingQuery:
    rows = (
        spark.readStream.format("penstock")
        .options(subscribe=subscribe, startingOffsets="earliest", maxOffsetsPerTrigger="100")
        .option("kafka.bootstrap.servers", servers)
        .load()
    )
    writer = (
        rows.select("value")
        .writeStream.format("penstock")
        .options(topic=target, delivery="exactly-once", checkpointLocation=checkpoint)
        .option("kafka.bootstrap.servers", servers)
    )
    return (writer.trigger(availableNow=True) if to_the_end else writer).start()


def main() -> None:
    spark = build_session("copying", "local[2]", profile="quick", share_classes=True)
    start_copy(spark, *sys.argv[1:], to_the_end=False).awaitTermination()


if __name__ == "__main__":
    main()
