"""Run a query and a streams application over one topic to its end, on the imported version of Spark.

    python spark_version_query.py SERVERS DIRECTORY

It prints Spark's version. The directory contains the checkpoints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from penstock.spark import register
from penstock.spark.launching.session import build_session
from penstock.streams import App, string

SOURCE, COPIED, COUNTED, SUMS = "source", "copied", "counted", "sums"


def counting_app() -> App:
    app = App("counting", key=string, value=string)
    counts = app.stream(SOURCE).group_by_key().count(store="counts")
    counts.to_stream().map_values(str, value=string).to(COUNTED)
    by_letter = counts.group_by(lambda key, count: (key[0], count))
    by_letter.sum(store="sums").to_stream().map_values(str, value=string).to(SUMS)
    return app


def main() -> None:
    servers, directory = sys.argv[1], Path(sys.argv[2])
    print(pyspark.__version__, flush=True)
    spark = build_session("versions", "local[2]", profile="quick")
    register(spark)
    rows = (
        spark.readStream.format("penstock")
        .options(**{"kafka.bootstrap.servers": servers, "group.id": "copying"})
        .options(subscribe=SOURCE, startingOffsets="earliest")
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("penstock")
        .options(**{"kafka.bootstrap.servers": servers, "delivery": "exactly-once", "topic": COPIED})
        .option("checkpointLocation", str(directory / "copying"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    counting_app().start(
        bootstrap_servers=servers,
        checkpoint=directory / "counting",
        spark=spark,
        until="drained",
        shuffle_partitions=2,
    ).wait()
    spark.stop()


if __name__ == "__main__":
    main()
