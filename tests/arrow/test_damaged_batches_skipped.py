"""`penstock.read` where batches on disk are damaged: named or skipped, as the caller says."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import penstock
from broker_wire import Wire
from damaged_batches import damages
from penstock.client.settings import ConfigError
from penstock.protocol.batch import MalformedRecords
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster

START_MS = 1_700_000_000_000
ROWS = [Record(0, START_MS, None, b"value %d" % number) for number in range(5)]
DAMAGES = ("records cut short", "more records than stated", "bytes of gzip")


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    """A node that trusts the headers of batches, with damaged batches between sound ones in the topic t."""
    with (
        Cluster({"penstock.produce.validation": "header"}) as cluster,
        Wire(cluster.bootstrap_servers) as wire,
    ):
        wire.create_topic("t", retention_ms="-1")
        for codec in (Codec.NONE, Codec.LZ4):
            for name in DAMAGES:
                assert wire.produce("t", encode_batch(ROWS, compression=codec)).error_code == 0
                assert wire.produce("t", damages(ROWS, codec)[name]).error_code == 0
        yield cluster


@pytest.mark.parametrize("threads", [1, 2])
def test_a_damaged_batch_is_named(node: Cluster, threads: int) -> None:
    scan = penstock.read("t", node.bootstrap_servers, threads=threads)
    with pytest.raises(
        MalformedRecords, match=r"the batch of t-0, offsets 5 to 9 is damaged: .* set to skip"
    ):
        scan.to_table()
    later = penstock.read("t", node.bootstrap_servers, start={0: 10}, end={0: 15}, threads=threads)
    assert later.to_table().num_rows == 5, "a reader may also begin behind it"


@pytest.mark.parametrize("threads", [1, 2])
def test_damaged_batches_are_skipped(node: Cluster, caplog: pytest.LogCaptureFixture, threads: int) -> None:
    table = penstock.read("t", node.bootstrap_servers, damaged_batches="skip", threads=threads).to_table()
    assert table.column("value").to_pylist() == [row.value for row in ROWS] * 6
    assert caplog.text.count("damaged batch skipped batch='t-0, offsets ") == 6


def test_a_search_by_time_finds_a_damaged_batch(node: Cluster) -> None:
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("times", retention_ms="-1")
        later = [row._replace(timestamp=START_MS + 1000) for row in ROWS]
        wire.produce("times", encode_batch(ROWS))
        wire.produce("times", damages(later, Codec.NONE)["records cut short"])
    since = datetime.fromtimestamp(START_MS / 1000 + 1, UTC)
    scan = penstock.read("times", node.bootstrap_servers, start=since)
    assert list(scan.offsets.values()) == [range(5, 10)]


def test_the_choice_is_checked(node: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"'damaged_batches': expected one of .*, found 'ignore'"):
        penstock.read("t", node.bootstrap_servers, damaged_batches="ignore")  # type: ignore[arg-type]
