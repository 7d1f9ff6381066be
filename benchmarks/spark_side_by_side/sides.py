"""The two connections of Spark to a broker. Apart from the format's name, both get the same options."""

from collections.abc import Mapping
from typing import NamedTuple

from side_by_side.figures import OURS, THEIRS


class Side(NamedTuple):
    """One side: its `name` in the results, and the `format` that Spark knows it by."""

    name: str
    format: str
    label: str


PENSTOCK = Side(OURS, "penstock", "Penstock")
CONNECTOR = Side(THEIRS, "kafka", "Spark's connector")
SIDES = (PENSTOCK, CONNECTOR)


def side_named(name: str) -> Side:
    return next(side for side in SIDES if side.name == name)


# Options of both sinks, so that neither pays for the small batches of the Java producer's defaults.
PRODUCER_OPTIONS: Mapping[str, str] = {"kafka.batch.size": str(512 * 1024), "kafka.linger.ms": "5"}

# Settings of both sessions, as for any query that should be fast (docs/pyspark.md).
SESSION_SETTINGS: Mapping[str, str] = {"spark.sql.shuffle.partitions": "2"}

# Settings of a query that needs low latency, set before it starts.
LOW_LATENCY: Mapping[str, str] = {
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1",
    "spark.sql.shuffle.partitions": "1",
}
