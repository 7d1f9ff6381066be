"""Apache Kafka's own classes and kafka-dump-log read our directories, and our code reads theirs."""

import time
from pathlib import Path

import pytest
from log_building import START_MS, Clock, append_marker, append_values, read_all

from kafka_node import run_java
from penstock.storage.config import LogConfig
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.names import TopicPartition
from penstock.storage.partition.log import Log

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TOOL = Path(__file__).with_name("KafkaStorage.java")
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=400, retention_ms=-1)
TRANSACTIONAL = {"transactional": True, "producer_epoch": 3}


def facts(output: str, *names: str) -> list[str]:
    lines = output.splitlines()
    return [
        next(line for line in lines if line.startswith(name + " ")).removeprefix(name + " ") for name in names
    ]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A closed node's directory: segments, idempotent and transactional producers, one aborted, one open."""
    marks = {TopicPartition("flights", 0): 90}
    manager = LogManager([tmp_path], node_id=7, clock=Clock(), high_watermarks=lambda: marks)
    log = manager.create("flights", TOPIC_ID, 0, CONFIG)
    for i in range(40):
        append_values(log, b"%d" % i, b"x" * 40, timestamp=START_MS + i * 5, epoch=i // 18)
    now = {"timestamp": time.time_ns() // 1_000_000, "epoch": 2}  # Kafka expires old producers
    for i in range(6):
        append_values(log, b"i", producer_id=11, producer_epoch=2, base_sequence=i, **now)
    append_values(log, b"t", producer_id=12, base_sequence=0, compression=4, **TRANSACTIONAL, **now)
    append_values(log, b"u", producer_id=13, base_sequence=0, **TRANSACTIONAL, **now)
    append_marker(log, 12, 3, committed=False, **now)
    log.delete_records_before(5)
    manager.close()
    return tmp_path


def test_checkpoints_and_properties(kafka_libs: Path, log_dir: Path) -> None:
    found = run_java(kafka_libs, str(TOOL), "files", str(log_dir), "flights")
    assert facts(
        found,
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "topic id",
    ) == ["{flights-0=89}", "{flights-0=5}", "{flights-0=90}", "AAECAwQFBgcICQoLDA0ODw"]
    assert "startOffset=36" in facts(found, "epochs")[0]
    assert facts(found, "node")[0].startswith("7 cluster ")


def test_dump_log_reads_every_file(kafka_libs: Path, log_dir: Path) -> None:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = sorted(p for p in (log_dir / "flights-0").iterdir() if p.suffix in suffixes)
    assert {path.suffix for path in files} == set(suffixes)
    names = ",".join(map(str, files))
    found = run_java(
        kafka_libs, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", names
    )
    assert found.count("isvalid: true") == 49
    for complaint in ("isvalid: false", "Mismatch", "mismatch", "out of order", "Non-consecutive", "corrupt"):
        assert complaint not in found, complaint
    assert "producerId: 11 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: " in found
    assert "producerId: 12 firstOffset: 86 lastOffset: 88 lastStableOffset: 87" in found
    sane = run_java(
        kafka_libs,
        "org.apache.kafka.tools.DumpLogSegments",
        "--index-sanity-check",
        "--files",
        ",".join(str(p) for p in files if p.suffix.endswith("index") and p.suffix != ".txnindex"),
    )
    assert sane.count("passed sanity check") == len(
        [p for p in files if p.suffix in (".index", ".timeindex")]
    )


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_goes_on_with_our_log_and_we_with_its(kafka_libs: Path, log_dir: Path, clean: bool) -> None:
    directory = log_dir / "flights-0"
    content = [path.name for path in sorted(directory.glob("*.log"))]
    found = run_java(kafka_libs, str(TOOL), "log", str(log_dir), "flights", str(clean).lower())
    assert facts(found, "offsets", "producers", "aborted", "latest epoch", "appended") == [
        "0 89",
        "[11/2/5/-1, 12/3/0/-1, 13/3/0/87]",
        "[12/86/88/87]",
        "2",
        "89",
    ]
    assert facts(found, "segments")[0] == str([int(name[:20]) for name in content])
    log = Log.open(
        directory, "flights", 0, CONFIG, clean=clean, recovery_point=0, log_start_offset=5, clock=Clock()
    )
    assert log.log_end_offset == 90
    assert read_all(log)[-1] == (89, b"by kafka")
    assert log.leader_epochs.latest == 7
    assert log.last_stable_offset(90) == 87
    assert log.aborted_transactions(0, 90) == [(12, 86, 88, 87)]
    assert append_values(log, b"i", producer_id=11, producer_epoch=2, base_sequence=5).duplicate
