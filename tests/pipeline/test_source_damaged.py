"""Spark's source where batches on disk are damaged: named or skipped, as the query says."""

import pytest
from pyspark.errors import PySparkException

from broker_wire import Wire
from damaged_batches import damages
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster

pytestmark = pytest.mark.spark

ROWS = [Record(0, 1_700_000_000_000, None, b"value %d" % number) for number in range(5)]


def test_a_damaged_batch_is_named_or_skipped(spark):
    with Cluster({"penstock.produce.validation": "header"}) as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("t", retention_ms="-1")
            wire.produce("t", encode_batch(ROWS))
            wire.produce("t", damages(ROWS, Codec.ZSTD)["compressed bytes cut short"])
            wire.produce("t", encode_batch(ROWS))
        reader = spark.read.format("penstock").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        with pytest.raises(PySparkException, match=r"the batch of t-0, offsets 5 to 9 is damaged"):
            reader.option("subscribe", "t").load().collect()
        found = reader.option("subscribe", "t").option("damagedBatches", "skip").load().collect()
    assert sorted(row.offset for row in found) == [*range(5), *range(10, 15)]
