"""The two ways for Spark to a broker. Apart from the format's name, both are given the same options."""

from collections.abc import Mapping
from typing import NamedTuple

from side_by_side.figures import OURS, THEIRS


class Side(NamedTuple):
    """`name` as in the results, `format` as Spark knows it."""

    name: str
    format: str
    label: str


PENSTOCK = Side(OURS, "penstock", "Penstock")
CONNECTOR = Side(THEIRS, "kafka", "Spark's connector")
SIDES = (PENSTOCK, CONNECTOR)


def side_named(name: str) -> Side:
    return next(side for side in SIDES if side.name == name)


# What both sinks are told, so that neither pays for the small batches of the Java producer's defaults.
PRODUCER_OPTIONS: Mapping[str, str] = {"kafka.batch.size": str(512 * 1024), "kafka.linger.ms": "5"}

# Of the session of both: what a query that shall be fast sets anyway (docs/pyspark.md).
SESSION_SETTINGS: Mapping[str, str] = {"spark.sql.shuffle.partitions": "2"}

# Of a query that shall answer soon, set before it starts.
LOW_LATENCY: Mapping[str, str] = {
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1",
    "spark.sql.shuffle.partitions": "1",
}
