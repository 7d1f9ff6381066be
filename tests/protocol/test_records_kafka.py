"""Apache Kafka's own dump tool reads every kind of batch written here."""

import re
import struct
from pathlib import Path

import pytest

from kafka_node import run_java
from penstock.protocol import batch
from penstock.protocol.columns import BinaryColumn, RowColumns, encode_batches
from penstock.protocol.compression import LEVELS, Codec
from penstock.protocol.records import (
    Record,
    decode_batches,
    encode_batch,
    encode_end_txn_marker,
)

pytestmark = pytest.mark.kafka

NOW_MS = 1_700_000_000_000
DUMP_TIMEOUT_S = 60


ROWS = [
    Record(
        0, NOW_MS + n, None if n % 5 == 0 else b"key%d" % n, b"value %d" % n * 9, (("h", b"x"), ("n", None))
    )
    for n in range(200)
]


def written_batches() -> list[bytes]:
    """A batch of each codec, also at its extreme levels, of columns, of a transaction, and its marker."""
    batches = [encode_batch(ROWS, compression=codec) for codec in Codec]
    for codec, levels in LEVELS.items():
        batches += [encode_batch(ROWS, compression=codec, level=level) for level in levels[:2]]
    column = BinaryColumn(struct.pack("=3i", 0, 1, 3), b"abc")
    columns = RowColumns(2, column, column)
    batches += [bytes(data) for data in encode_batches(columns, default_timestamp=NOW_MS)]
    producer = {"producer_id": 42, "producer_epoch": 3}
    batches.append(encode_batch(ROWS[:3], base_sequence=0, transactional=True, **producer))
    batches.append(encode_end_txn_marker(committed=True, coordinator_epoch=7, timestamp=NOW_MS, **producer))
    return batches


def dumped(kafka_libs: Path, log: Path) -> str:
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(log)]
    return run_java(kafka_libs, *tool, timeout_s=DUMP_TIMEOUT_S)


def shown_record(line: str) -> tuple[int, int, str | None, str]:
    found = re.match(r"\| offset: (\d+) CreateTime: (\d+) .*?( key: (\S+))? payload: (.*)", line)
    assert found, line
    return int(found[1]), int(found[2]), found[4], found[5]


def test_kafka_dump_log_reads_every_batch(kafka_libs: Path, tmp_path: Path) -> None:
    segment = bytearray(b"".join(written_batches()))
    batch.assign_offsets(segment, batch.check_batches(segment), 0, 5)
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(segment)
    dump = dumped(kafka_libs, log)

    shown = re.findall(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* isvalid: (\w+)", dump)
    headers = batch.check_batches(segment)
    assert shown == [(str(h.base_offset), str(h.last_offset), str(h.count), "true") for h in headers]

    *lines, marker = [line for line in dump.splitlines() if line.startswith("| offset: ")]
    assert "endTxnMarker: COMMIT coordinatorEpoch: 7" in marker
    assert [shown_record(line) for line in lines] == [
        (r.offset, r.timestamp, r.key and r.key.decode(), r.value.decode()) for r in decode_batches(segment)
    ]
