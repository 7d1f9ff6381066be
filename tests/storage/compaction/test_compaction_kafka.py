"""Apache Kafka's own cleaner makes the same bytes of a copy of the log, and its dump tool reads ours."""

import random
import shutil
import time
from pathlib import Path

import pytest
from compaction_bench import Undisturbed, keyed_batch
from log_building import Clock, append

from kafka_node import run_java
from penstock.protocol import batch
from penstock.protocol.kernels import kernel
from penstock.protocol.records import decode_batch, encode_end_txn_marker
from penstock.storage.compaction.cleanable import LogToClean
from penstock.storage.compaction.cleaner import Cleaner
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.compaction.throttler import Throttler
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import REAL_FILES
from penstock.storage.partition.log import Log
from penstock.storage.producers.staged_append import Origin

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

KAFKA_SLOT_BYTES = 24
TOOL = Path(__file__).with_name("KafkaCleaner.java")
KEYS = [b"key %d" % i for i in range(12)]
RETENTION_MS = 1000
SEGMENT_BYTES = 3000
ROOMY, TIGHT = 400, 10
"""The number of keys that the offset map has slots for; the log has more than ten keys."""
CONFIG = LogConfig(
    cleanup_policy=frozenset(("compact",)),
    segment_bytes=SEGMENT_BYTES,
    delete_retention_ms=RETENTION_MS,
    retention_ms=-1,
)
UNCOMPRESSED = (0,)
ANY_CODEC = (0, 1, 2, 3, 4)


def open_log(directory: Path, *, clean: bool) -> Log:
    return Log.open(
        directory, directory.name[:-2], 0, CONFIG, clean=clean, recovery_point=0, clock=Clock(time_ms())
    )


def time_ms() -> int:
    return time.time_ns() // 1_000_000


def build(directory: Path, rng: random.Random, codecs: tuple[int, ...]) -> None:
    """Write batches of all kinds of producers, tombstones, keyless records and markers; close cleanly."""
    log = open_log(directory, clean=False)
    sequences: dict[int, int] = {}
    transactional: set[int] = set()
    now_ms = time_ms()
    for producer_id in (31, 32):  # each writes once, and all its records are superseded
        append(
            log,
            keyed_batch(
                [(KEYS[0], b"v")], now_ms, producer_id=producer_id, producer_epoch=0, base_sequence=0
            ),
        )
    for number in range(260):
        kind = rng.random()
        if kind < 0.12 and transactional:
            producer_id = rng.choice(sorted(transactional))
            transactional.discard(producer_id)
            marker = encode_end_txn_marker(
                committed=rng.random() < 0.5,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=now_ms + number,
            )
            append(log, marker, number // 100, Origin.COORDINATOR)
            continue
        options: dict[str, object] = {
            "compression": rng.choice(codecs),
            "timestamp_type": rng.choice((0, 0, 1)),
        }
        pairs = [
            (rng.choice((*KEYS, None)) if rng.random() < 0.1 else rng.choice(KEYS), value(rng))
            for _ in range(rng.randrange(1, 5))
        ]
        if kind < 0.6:
            producer_id = rng.randrange(1, 6)
            if producer_id > 3:
                transactional.add(producer_id)
            sequence = sequences.get(producer_id, 0)
            sequences[producer_id] = sequence + len(pairs)
            options |= {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "transactional": producer_id > 3,
            }
        append(log, keyed_batch(pairs, now_ms + number, **options), number // 100)
    log.close()


def value(rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.15 else b"v" * rng.randrange(60)


def clean_here(directory: Path, times_ms: list[int], slots: int = ROOMY) -> list[int]:
    """Clean with our cleaner as KafkaCleaner.java does with its own."""
    log = open_log(directory, clean=True)
    config = CleanerConfig(dedupe_buffer_size=slots * kernel.OFFSET_MAP_SLOT_BYTES)
    ends = []
    first_dirty = 0
    for now_ms in times_ms:
        active = log.segments.active.base_offset
        cleaner = Cleaner(
            config, Throttler(1e18, time.monotonic), REAL_FILES, random.Random(1), Undisturbed(log)
        )
        found = LogToClean(log, first_dirty, active, 0, 0, 0)
        ends.append(cleaner.clean(found, now_ms).end_offset)
        first_dirty = 0 if ends[-1] == active else ends[-1]
    log.close()
    return ends


def content(directory: Path, suffix: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*" + suffix))}


def decoded(data: bytes) -> list[object]:
    """The records, and the headers without fields that depend on the compressor."""
    return [
        (header._replace(batch_length=0, crc=0), list(decode_batch(data, position)))
        for position, header in batch.iter_headers(data)
    ]


@pytest.mark.parametrize(
    ("seed", "codecs", "slots", "cleans"),
    [
        (1, UNCOMPRESSED, ROOMY, 2),
        (2, UNCOMPRESSED, TIGHT, 4),
        (3, ANY_CODEC, ROOMY, 2),
        (4, ANY_CODEC, ROOMY, 4),
    ],
)
def test_kafka_s_cleaner_leaves_the_same_bytes(
    kafka_libs: Path, tmp_path: Path, seed: int, codecs: tuple[int, ...], slots: int, cleans: int
) -> None:
    ours, theirs = tmp_path / "ours" / "flights-0", tmp_path / "theirs" / "flights-0"
    build(ours, random.Random(seed), codecs)
    shutil.copytree(ours, theirs)
    now_ms = time_ms()
    times = [now_ms, now_ms + 500, now_ms + RETENTION_MS, now_ms + 3 * RETENTION_MS][:cleans]
    ends = clean_here(ours, times, slots)
    found = run_java(
        kafka_libs,
        str(TOOL),
        str(theirs),
        str(SEGMENT_BYTES),
        str(RETENTION_MS),
        str(slots * KAFKA_SLOT_BYTES),
        *map(str, times),
    )
    assert [int(line.rpartition(" ")[2]) for line in found.splitlines() if "cleaned" in line] == ends
    headers = [header for data in content(ours, ".log").values() for _, header in batch.iter_headers(data)]
    if cleans == 2:  # the test covers the intended case
        assert any(header.delete_horizon_ms for header in headers)
        assert any(header.count == 0 for header in headers)
    for suffix in (".log", ".txnindex"):
        mine, kafka_s = content(ours, suffix), content(theirs, suffix)
        if suffix == ".txnindex":  # Kafka leaves empty index files behind
            mine = {name: data for name, data in mine.items() if data}
            kafka_s = {name: data for name, data in kafka_s.items() if data}
        assert mine.keys() == kafka_s.keys()
        for name, data in mine.items():
            if codecs == UNCOMPRESSED or suffix != ".log":
                assert data == kafka_s[name], name
            else:
                assert decoded(data) == decoded(kafka_s[name]), name


def test_dump_log_reads_what_was_cleaned(kafka_libs: Path, tmp_path: Path) -> None:
    directory = tmp_path / "flights-0"
    build(directory, random.Random(4), ANY_CODEC)
    now_ms = time_ms()
    clean_here(directory, [now_ms, now_ms + 2 * RETENTION_MS])
    files = sorted(
        p for p in directory.iterdir() if p.suffix in (".log", ".index", ".timeindex", ".txnindex")
    )
    found = run_java(
        kafka_libs,
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--files",
        ",".join(map(str, files)),
    )
    assert "deleteHorizonMs: OptionalLong[" in found
    for complaint in ("isvalid: false", "Mismatch", "mismatch", "out of order", "corrupt"):
        assert complaint not in found, complaint
