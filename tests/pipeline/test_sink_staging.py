"""The files that tasks stage and the driver reads, and reading a checkpoint. No broker, no Spark session."""

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import RecordTooLarge
from penstock.client.settings import ConfigError
from penstock.protocol.batch import iter_headers
from penstock.protocol.records import decode_batches
from penstock.spark.sink.checkpoint import (
    Checkpoint,
    CheckpointError,
    GroupOffsets,
    SinkState,
    parse_offset_entry,
)
from penstock.spark.sink.columns import SinkColumns
from penstock.spark.sink.encoding import EncodedBatch, RowEncoder, TopicLimits
from penstock.spark.sink.locations import Location
from penstock.spark.sink.options import BatchConfig, Delivery, parse_sink
from penstock.spark.sink.staged import (
    Run,
    Stage,
    StagedBatchMissing,
    StagingRequired,
    partitions_of,
)

SERVERS = {"kafka.bootstrap.servers": "h:1"}
RUN = Run("query", "run", 3)
BATCHES = [EncodedBatch("a", 0, bytearray(b"x" * 10)), EncodedBatch("b", 1, bytearray(b"yz" * 20))]


class Encoder(RowEncoder):
    limits = TopicLimits(1)

    def limits_of(self, topic: str) -> TopicLimits:
        return self.limits


def encode(values: list[bytes], max_batch_bytes: int | None, **batch: object) -> list[bytearray]:
    columns = SinkColumns("value", None, None, None, None, None)
    encoder = Encoder(columns, "t", BatchConfig(**batch), transactional=True)
    encoder.limits = TopicLimits(1, max_batch_bytes)
    return [encoded.data for encoded in encoder.encode(pa.record_batch({"value": values}))]


@pytest.mark.parametrize("inline_bytes", [0, 10, 49, 50, 1000])
def test_what_is_staged_is_read_back(tmp_path: Path, inline_bytes: int) -> None:
    staging = Location.open(str(tmp_path / "not" / "there"), "o")
    stage = Stage(staging, "0-7", inline_bytes)
    for batch in BATCHES:
        stage.add(batch)
    report = stage.finish(RUN, 2)
    assert (report.inline is None) == (inline_bytes < 50)
    assert report.name is None or report.name.startswith("0-7-")
    for _ in range(2):
        assert list(report.batches(staging)) == BATCHES
    assert partitions_of([report]) == {TopicPartition("a", 0), TopicPartition("b", 1)}
    stage.discard()
    assert list(staging.names()) == []


def test_two_attempts_of_a_task_never_share_a_file(tmp_path: Path) -> None:
    staging = Location.open(str(tmp_path), "o")
    reports = []
    for number in range(2):
        stage = Stage(staging, "0-7", inline_bytes=0)
        stage.add(EncodedBatch("t", 0, bytearray(b"%d" % number)))
        reports.append(stage.finish(RUN, 1))
    assert [next(report.batches(staging)).data for report in reports] == [b"0", b"1"]


def test_files_that_are_not_there_or_torn_are_told(tmp_path: Path) -> None:
    staging = Location.open(str(tmp_path), "o")
    stage = Stage(staging, "0-7", inline_bytes=0)
    stage.add(BATCHES[0])
    report = stage.finish(RUN, 1)
    file = tmp_path / str(report.name)
    file.write_bytes(b"short")
    with pytest.raises(StagedBatchMissing, match="is shorter than the task"):
        list(report.batches(staging))
    file.unlink()
    with pytest.raises(StagedBatchMissing, match=rf"does not find {file}.*must share this directory"):
        list(report.batches(staging))


def test_without_a_place_to_stage_there_is_a_limit() -> None:
    stage = Stage(None, "0-7", inline_bytes=20)
    stage.add(BATCHES[0])
    with pytest.raises(StagingRequired, match=r"more than 20 bytes.*option 'stagingLocation'"):
        stage.add(BATCHES[1])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_keep_to_what_the_topic_takes(codec: str) -> None:
    """Random bytes grow under compression, so a batch that just fits before it is too large afterwards."""
    values = [random.Random(number).randbytes(300) for number in range(40)]
    batches = encode(values, 1000, compression_type=codec)
    assert max(map(len, batches)) <= 1000
    assert [record.value for batch in batches for record in decode_batches(batch)] == values
    headers = [header for batch in batches for _, header in iter_headers(batch)]
    assert all(header.is_transactional for header in headers)
    with pytest.raises(
        RecordTooLarge, match=r"a record for topic 't' takes 1\d\d\d bytes .*expected at most 1000"
    ):
        encode([b"v", random.Random(1).randbytes(1000)], 1000, compression_type=codec)


def test_locations_are_found_by_the_names_that_spark_uses(tmp_path: Path) -> None:
    names = [str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}", f"{tmp_path}/x/.."]
    for name in names:
        location = Location.open(name, "o")
        assert location.is_local
        assert location.path.rstrip("/") == str(tmp_path)
    assert Location.open("gs://bucket/checkpoint", "o").path == "bucket/checkpoint"
    assert Location.open("s3a://bucket/checkpoint?region=eu-central-1", "o").path == "bucket/checkpoint"


def test_a_relative_path_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.open("checkpoint", "o").uri == str(tmp_path / "checkpoint")


def test_a_location_out_of_reach_is_named() -> None:
    with pytest.raises(ConfigError, match=r"option 'o': the sink can't reach 'dbfs:/x': expected a path or"):
        Location.open("dbfs:/x", "o")


def test_a_file_is_there_as_a_whole_or_not(tmp_path: Path) -> None:
    file = Location.open(str(tmp_path), "o").child("penstock", "sink.json")
    assert file.read() is None
    file.write(b"one")
    file.write(b"two")
    assert file.read() == b"two"
    assert os.listdir(tmp_path / "penstock") == ["sink.json"]


SOURCE = '{"in":{"0":5,"1":7},"@topics":{"in":"Zc2"},"@group":{"id":"g","cluster":"c"}}'
EXPECTED = GroupOffsets("g", "c", {TopicPartition("in", 0): 5, TopicPartition("in", 1): 7})


@pytest.mark.parametrize(
    "lines",
    [
        ["v1", "{}", "-", SOURCE, '{"in":{"0":5}}', "17"],
        ["v2", "{}", "0:-", f"1:{SOURCE}", '2:{"in":{"0":5}}', "3:17"],
        ["v2", "{}", f"orders:{SOURCE}", ""],
    ],
)
def test_groups_are_found_in_either_version_of_the_offset_log(lines: list[str]) -> None:
    entry = parse_offset_entry("\n".join(lines).encode())
    assert entry.groups == (EXPECTED,)
    other = parse_offset_entry("\n".join(lines).replace("5", "6").encode())
    assert other.fingerprint != entry.fingerprint


@pytest.mark.parametrize("data", [b"", b"v3\n{}\n{}", b"{}"])
def test_an_unknown_offset_log_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="an entry of an unknown version"):
        parse_offset_entry(data)


def test_what_is_missing_in_a_checkpoint_is_named(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path))
    with pytest.raises(ConfigError, match=r"no file 'metadata' in .*URI with its scheme"):
        checkpoint.require_query_id()
    with pytest.raises(CheckpointError, match="has no batch 3"):
        checkpoint.offset_entry(3)
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(CheckpointError, match="metadata names no query"):
        checkpoint.query_id()
    (tmp_path / "metadata").write_text(json.dumps({"id": "abc"}))
    assert checkpoint.require_query_id() == "abc"


def test_the_state_of_the_sink_is_kept(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path))
    assert checkpoint.state() is None
    state = SinkState(since=4, marker_topic="out", cluster_id="c")
    checkpoint.set_state(state)
    assert Checkpoint.open(f"file://{tmp_path}").state() == state
    file = tmp_path / "penstock" / "sink.json"
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CheckpointError, match="has version 2, expected at most 1"):
        checkpoint.state()
    file.write_text("{")
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.state()


def test_only_what_is_done_is_removed_from_the_staging_directory(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path))
    checkpoint.remove_staged(up_to=5)
    for name in ("3", "5", "6", "notes"):
        checkpoint.staging.child(name, "0-1").write(b"x")
    checkpoint.remove_staged(up_to=5)
    assert sorted(checkpoint.staging.names()) == ["6", "notes"]


def test_at_least_once_stays_the_default() -> None:
    assert parse_sink(SERVERS | {"topic": "t"}).delivery is Delivery.AT_LEAST_ONCE
    assert parse_sink(SERVERS | {"topic": "t", "delivery": "exactly-once"}).is_exactly_once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delivery": "once"}, "one of at-least-once, exactly-once"),
        ({"delivery": "exactly-once", "kafka.acks": "1"}, "needs 'kafka.acks' to be all"),
        ({"delivery": "exactly-once", "kafka.enable.idempotence": "false"}, "idempotence' to be true"),
        ({"stagingLocation": "/s"}, "at-least-once writes stage nothing"),
        (
            {"delivery": "exactly-once", "stagingLocation": "/s", "checkpointLocation": "/c"},
            "for batch writes",
        ),
        ({"kafka.transactional.id": "x"}, "set the option 'delivery' to 'exactly-once'"),
    ],
)
def test_options_that_do_not_go_together_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_sink(SERVERS | options)
