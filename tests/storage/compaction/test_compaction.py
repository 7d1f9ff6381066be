"""Successive cleans of one log: which records are kept or removed, and when."""

import struct
import zlib
from dataclasses import replace
from zlib import crc32

import pytest
from compaction_bench import append_pairs, clean, headers_of, records_of, table, to_clean
from log_building import START_MS, LogBench, append_marker

from penstock.protocol import batch
from penstock.protocol.compression import Codec
from penstock.protocol.kernels import kernel
from penstock.storage.compaction.checkpoint import CleanerCheckpoint
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import REAL_FILES
from penstock.storage.partition.log import Log

DAY_MS = 86_400_000
COMPACTED = LogConfig(cleanup_policy=frozenset(("compact",)), delete_retention_ms=1000)


@pytest.fixture
def log(bench: LogBench) -> Log:
    bench.config = COMPACTED
    return bench.open()


def kept(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def test_newest_record_of_each_key_stays_where_it_was(log: Log) -> None:
    append_pairs(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    append_pairs(log, (b"c", b"1"), (b"b", b"2"))
    log.roll()
    append_pairs(log, (b"c", b"2"))
    result = clean(log)
    assert result.end_offset == 5
    assert kept(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"c", b"2")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    assert (result.stats.messages_read, result.stats.messages_written) == (5, 3)
    first = headers_of(log)[0]
    assert (first.base_offset, first.last_offset, first.count) == (0, 2, 1)


def test_fetch_at_an_offset_in_a_gap_gives_the_next_batch(log: Log) -> None:
    for _ in range(30):
        append_pairs(log, (b"a", b"1" * 50))
    append_pairs(log, (b"b", b"1"))
    log.roll()
    append_pairs(log, (b"z", b"1"))
    clean(log)
    for offset in range(30):
        piece = log.read(offset, 1000)
        assert piece is not None
        assert batch.parse_header(piece.read()).base_offset == 29
    assert log.read(32, 1000) is None


def test_tombstones_outlive_their_delete_horizon_by_one_clean(log: Log) -> None:
    append_pairs(log, (b"a", b"1"), (b"b", b"1"))
    append_pairs(log, (b"a", None))
    log.roll()
    append_pairs(log, (b"z", b"1"))
    clean(log, START_MS)
    assert kept(log)[:2] == [(1, b"b", b"1"), (2, b"a", None)]
    tombstone = headers_of(log)[1]
    assert tombstone.delete_horizon_ms == START_MS + 1000
    assert records_of(log)[1].timestamp == START_MS, "the record keeps its own"
    clean(log, START_MS + 999)
    assert kept(log)[1] == (2, b"a", None)
    clean(log, START_MS + 1000)
    assert kept(log) == [(1, b"b", b"1"), (3, b"z", b"1")]
    last = headers_of(log)[1]
    assert (last.base_offset, last.count) == (2, 0), "the last batch of the cleaned part keeps its header"


def test_records_without_key_are_dropped(log: Log) -> None:
    append_pairs(log, (None, b"1"), (b"a", b"1"))
    log.roll()
    append_pairs(log, (b"z", b"1"))
    result = clean(log)
    assert kept(log) == [(1, b"a", b"1"), (2, b"z", b"1")]
    assert result.stats.invalid_messages_read == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_keep_codec_leader_epoch_and_headers(log: Log, codec: Codec) -> None:
    append_pairs(log, (b"a", b"1"), (b"b", b"2" * 300), (b"a", b"3"), compression=codec)
    before = records_of(log)
    log.roll()
    append_pairs(log, (b"z", b"1"))
    clean(log)
    header = headers_of(log)[0]
    assert header.compression == codec
    assert header.partition_leader_epoch == 0
    assert records_of(log)[:2] == before[1:]
    assert header.base_timestamp == before[1].timestamp


def test_segments_are_merged_up_to_their_size(bench: LogBench) -> None:
    bench.config = replace(COMPACTED, segment_bytes=2000)
    log = bench.open()
    for i in range(300):
        append_pairs(log, (b"k%d" % (i % 20), b"v" * 100))
    assert len(log.segments) > 20
    clean(log, checkpoint=None)
    clean(log, checkpoint=None)
    assert len(log.segments) <= 4
    assert log.size_bytes == sum(path.stat().st_size for path in bench.directory.glob("*.log"))
    assert len(table(records_of(log))) == 20
    snapshots = {int(path.stem) for path in bench.directory.glob("*.snapshot")}
    assert snapshots <= {*log.segments.base_offsets, log.log_end_offset}
    log.close()
    again = bench.open(clean=True)
    assert kept(again) == kept(log)
    assert again.segments.base_offsets == log.segments.base_offsets


def test_a_full_key_map_ends_the_clean_where_it_got_to(log: Log) -> None:
    for i in range(100):
        append_pairs(log, (b"k%d" % i, b"1"), (b"k%d" % i, b"2"))
    log.roll()
    append_pairs(log, (b"z", b"1"))
    small = CleanerConfig(dedupe_buffer_size=kernel.OFFSET_MAP_SLOT_BYTES * 50, io_buffer_load_factor=0.8)
    checkpoint = clean(log, config=small).end_offset
    assert 0 < checkpoint < 200
    assert len(records_of(log)) > 150
    while checkpoint < 200:
        assert clean(log, checkpoint=checkpoint, config=small).end_offset > checkpoint
        checkpoint = clean(log, checkpoint=checkpoint, config=small).end_offset
    assert [record.value for record in records_of(log)] == [b"2"] * 100 + [b"1"]


@pytest.mark.parametrize("load_factor", [0.0, -1.0, 2.0])
def test_odd_load_factors_do_no_harm(log: Log, load_factor: float) -> None:
    for i in range(40):
        append_pairs(log, (b"k%d" % (i % 20), b"v"))
    log.roll()
    clean(log, config=CleanerConfig(dedupe_buffer_size=1 << 20, io_buffer_load_factor=load_factor))
    assert [record.offset for record in records_of(log)] == list(range(20, 40))


def test_not_cleaned_is_what_is_active_young_or_undecided(log: Log) -> None:
    append_pairs(log, (b"a", b"1"))
    log.roll()
    append_pairs(log, (b"a", b"2"), timestamp=START_MS + DAY_MS)
    log.roll()
    append_pairs(log, (b"a", b"3"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    append_pairs(log, (b"z", b"1"))
    assert to_clean(log, START_MS + DAY_MS).first_uncleanable_offset == 2, "an open transaction"
    log.update_config(replace(COMPACTED, min_compaction_lag_ms=1000))
    assert to_clean(log, START_MS + DAY_MS + 500).first_uncleanable_offset == 1
    append_marker(log, 5, 0, committed=True)
    log.update_config(COMPACTED)
    assert to_clean(log, START_MS).first_uncleanable_offset == 3


def test_dirty_ratio_and_the_longest_lag(log: Log) -> None:
    for i in range(10):
        append_pairs(log, (b"a", b"%d" % i))
        log.roll()
    found = to_clean(log, START_MS, checkpoint=8)
    assert found.cleanable_ratio == pytest.approx(0.2)
    assert not found.is_due
    assert to_clean(log, START_MS, checkpoint=2).is_due
    log.update_config(replace(COMPACTED, max_compaction_lag_ms=5000))
    assert not to_clean(log, START_MS + 5000, checkpoint=8).is_due
    late = to_clean(log, START_MS + 5010, checkpoint=8)
    assert (late.compaction_delay_ms, late.is_due) == (10, True)
    for useless in (11, 10**6):
        assert to_clean(log, START_MS, checkpoint=useless).first_dirty_offset == 0


TRANSACTIONAL = {"producer_id": 5, "producer_epoch": 0, "transactional": True}


def test_aborted_records_go_and_their_marker_follows(log: Log) -> None:
    append_pairs(log, (b"a", b"1"))
    append_pairs(log, (b"a", b"aborted"), (b"b", b"aborted"), base_sequence=0, **TRANSACTIONAL)
    append_marker(log, 5, 0, committed=False)
    append_pairs(log, (b"b", b"committed"), base_sequence=2, **TRANSACTIONAL)
    append_marker(log, 5, 0, committed=True)
    log.roll()
    append_pairs(log, (b"z", b"1"))
    assert log.aborted_transactions(0, 7) != []
    clean(log, START_MS)
    assert kept(log) == [(0, b"a", b"1"), (4, b"b", b"committed"), (6, b"z", b"1")]
    assert [record.offset for record in records_of(log, control=True)] == [3, 5]
    assert log.aborted_transactions(0, 7) != [], "its batch was there when the marker was read"
    clean(log, START_MS)
    markers = [header for header in headers_of(log) if header.is_control]
    assert [header.delete_horizon_ms for header in markers] == [START_MS + 1000, None]
    assert log.aborted_transactions(0, 7) == []
    clean(log, START_MS + 1000)
    assert [header.base_offset for header in headers_of(log)] == [0, 4, 5, 6]


def test_a_commit_marker_stays_as_long_as_its_records(log: Log) -> None:
    append_pairs(log, (b"a", b"1"), base_sequence=0, **TRANSACTIONAL)
    append_marker(log, 5, 0, committed=True)
    append_pairs(log, (b"b", b"1"))
    log.roll()
    append_pairs(log, (b"z", b"1"), base_sequence=1, **TRANSACTIONAL)
    append_marker(log, 5, 0, committed=True)
    log.roll()
    append_pairs(log, (b"z", b"2"))
    clean(log, START_MS)
    assert 1 in [header.base_offset for header in headers_of(log)]
    append_pairs(log, (b"a", b"2"))
    log.roll()
    clean(log, START_MS)
    clean(log, START_MS)
    clean(log, START_MS + 1000)
    assert 1 not in [header.base_offset for header in headers_of(log)]


def test_the_last_batch_of_an_active_producer_keeps_its_header(bench: LogBench) -> None:
    bench.config = COMPACTED
    log = bench.open()
    idempotent = {"producer_id": 9, "producer_epoch": 3}
    append_pairs(log, (b"a", b"1"), base_sequence=0, **idempotent)
    append_pairs(log, (b"a", b"2"), base_sequence=1, **idempotent)
    append_pairs(log, (b"a", b"3"))
    log.roll()
    append_pairs(log, (b"z", b"1"))
    clean(log)
    empty = headers_of(log)[0]
    assert (empty.base_offset, empty.count, empty.producer_id) == (1, 0, 9)
    assert (empty.base_timestamp, empty.max_timestamp) == (-1, START_MS)
    log.close()
    for path in bench.directory.glob("*.snapshot"):
        path.unlink()
    again = bench.open()
    assert again.producer_state.producers[9].last_sequence == 1
    append_pairs(again, (b"a", b"4"), base_sequence=2, **idempotent)


def test_time_lookups_pass_over_what_is_gone(log: Log) -> None:
    for i in range(50):
        append_pairs(log, (b"a", b"%d" % i), timestamp=START_MS + i * 10)
    append_pairs(log, (b"b", b"1"), timestamp=START_MS + 700)
    log.roll()
    append_pairs(log, (b"z", b"1"), timestamp=START_MS + 800)
    clean(log, START_MS + 10_000)
    assert log.offset_for_timestamp(START_MS) == (START_MS + 490, 49, 0)
    assert log.offset_for_timestamp(START_MS + 491) == (START_MS + 700, 50, 0)
    assert log.max_timestamp_offset() == (START_MS + 800, 51, 0)


def test_readers_of_the_old_segments_go_on(log: Log) -> None:
    for i in range(200):
        append_pairs(log, (b"a", b"%d" % i * 50))
    log.roll()
    append_pairs(log, (b"z", b"1"))
    piece = log.read(0, 1 << 20)
    old = log.segments.first
    assert piece is not None
    before = piece.read()
    clean(log)
    log.remove_deleted_files(START_MS + 10**9)
    assert piece.read() == before
    assert old.position_of(150, old.size) is not None
    assert old.offset_index.lookup(150).offset > 0
    assert old.time_index.lookup(START_MS).offset >= 0
    assert log.segments.first is not old


def old_message(magic: int, offset: int, key: bytes | None, value: bytes | None, codec: int = 0) -> bytes:
    """A message of magic 0 or 1, as brokers before 0.11 wrote them."""

    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", START_MS) if magic else b"")
    body += sized(key) + sized(value)
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_rewritten_in_today_s(bench: LogBench, magic: int) -> None:
    bench.config = COMPACTED
    inner = b"".join(
        old_message(magic, i if magic else 2 + i, b"k%d" % i, value) for i, value in enumerate((b"4", None))
    )
    bench.directory.mkdir()
    bench.file(0, ".log").write_bytes(
        old_message(magic, 0, b"k0", b"0")
        + old_message(magic, 1, b"k1", b"1")
        + old_message(magic, 3, None, zlib.compress(inner, wbits=31), codec=Codec.GZIP)
    )
    log = bench.open()
    assert log.log_end_offset == 4
    log.roll()
    append_pairs(log, (b"z", b"1"))
    clean(log, START_MS)
    assert kept(log) == [(2, b"k0", b"4"), (3, b"k1", None), (4, b"z", b"1")]
    header = headers_of(log)[0]
    assert (header.magic, header.base_offset, header.last_offset) == (2, 2, 3)
    assert header.compression == Codec.GZIP
    assert header.delete_horizon_ms == START_MS + 1000
    assert records_of(log)[0].timestamp == (START_MS if magic else -1)


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_recovery_takes_a_compacted_end_for_no_hole(bench: LogBench, policy: str) -> None:
    """Compaction may remove the last records of a segment; recovery must not drop what follows it."""
    bench.config = replace(COMPACTED, segment_bytes=150)
    log = bench.open()
    append_pairs(log, (b"a", b"1"))
    append_pairs(log, (b"b", b"1"))
    log.roll()
    append_pairs(log, (b"b", b"2"))
    log.roll()
    append_pairs(log, (b"z", b"1"))
    end_offset = clean(log).end_offset
    before = kept(log)
    assert [header.last_offset for header in headers_of(log)] == [0, 2, 3]
    assert log.segments.base_offsets == [0, 2, 3]
    checkpoint = CleanerCheckpoint(bench.directory.parent, REAL_FILES)
    checkpoint.set(log.name, end_offset)
    checkpoint.write()
    log.flush()
    bench.config = replace(COMPACTED, cleanup_policy=frozenset((policy,)))
    assert kept(bench.open(clean=False)) == before
