"""The log cleaner of a node: choice of logs, schedule and interruptions, with real worker threads."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from compaction_bench import append_pairs, records_of, table
from log_building import START_MS, Clock, append, append_marker

from damaged_batches import damages
from penstock.protocol import batch
from penstock.protocol.batch import HEADER_SIZE, MalformedRecords
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, decode_batch
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.compaction.throttler import Throttler
from penstock.storage.config import LogConfig
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.disk import checkpoints
from penstock.storage.disk.checkpoints import CLEANED_OFFSETS
from penstock.storage.disk.files import FileSystem
from penstock.storage.names import TopicPartition
from penstock.storage.partition.log import Log

COMPACTED = LogConfig(cleanup_policy=frozenset(("compact",)), min_cleanable_dirty_ratio=0.1)
TOPIC_ID = bytes(range(16))
NAME = TopicPartition("flights", 0)
SOON = CleanerConfig(backoff_ms=0)


class GatedFiles(FileSystem):
    """Files that block the creation of a `.cleaned` file until `gate` opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Event()
        self.error: OSError | None = None

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:  # type: ignore[override]
        if str(path).endswith(".log.cleaned"):
            self.arrived.set()
            assert self.gate.wait(60)
            if self.error is not None:
                raise self.error
        return super().open(path, flags, mode)


class Node:
    """A log manager whose turns a test triggers."""

    def __init__(self, directory: Path, cleaner: CleanerConfig = SOON) -> None:
        self.directory = directory
        self.files = GatedFiles()
        self.clock = Clock()
        self.errors: list[OSError] = []
        self.manager = LogManager(
            [directory],
            node_id=1,
            clock=self.clock,
            files=self.files,
            cleaner=cleaner,
            high_watermarks=lambda: {log.name: log.log_end_offset for log in self.manager},
            io_error=lambda log, error: self.errors.append(error),
        )
        self.manager.load(lambda topic: COMPACTED)

    def create(self, config: LogConfig = COMPACTED, partition: int = 0) -> Log:
        return self.manager.create("flights", TOPIC_ID, partition, config)

    def tick_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60  # a busy machine schedules its threads late
        while not condition():
            assert time.monotonic() < deadline, "it did not come true in time"
            self.clock.now_ms += 1
            self.manager.tick(self.clock.now_ms)
            time.sleep(0.002)

    def checkpoint(self) -> dict[TopicPartition, int]:
        return checkpoints.read_offsets(self.directory / CLEANED_OFFSETS)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.files.gate.set()
    node.manager.close()


def fill(log: Log, count: int = 20) -> None:
    """Append many records of two keys, all but the last in segments that may be cleaned."""
    for i in range(count):
        append_pairs(log, (b"k%d" % (i % 2), b"%d" % i))
    log.roll()
    append_pairs(log, (b"z", b"1"))


def leftovers(directory: Path) -> list[str]:
    return [p.name for p in directory.rglob("*") if p.name.endswith((".cleaned", ".swap"))]


def test_dirty_logs_are_cleaned_and_checkpointed(node: Node) -> None:
    log = node.create()
    fill(log)
    node.tick_until(lambda: (node.directory / CLEANED_OFFSETS).exists() and node.checkpoint() == {NAME: 20})
    assert [record.offset for record in records_of(log)] == [18, 19, 20]
    assert node.manager.cleaner.last_stats[0].messages_written == 2
    assert leftovers(node.directory) == []
    clean = log.segments.first
    append_pairs(log, (b"k0", b"new"))
    log.roll()
    node.tick_until(lambda: node.checkpoint()[NAME] > 20)
    assert log.segments.first is not clean
    assert table(records_of(log)) == {b"k0": b"new", b"k1": b"19", b"z": b"1"}


def test_logs_that_are_not_compacted_are_left_alone(node: Node) -> None:
    log = node.create(replace(COMPACTED, cleanup_policy=frozenset(("delete",))))
    fill(log)
    for _ in range(20):
        node.manager.tick(node.clock.now_ms)
    assert len(records_of(log)) == 21


@pytest.mark.parametrize("config", [CleanerConfig(enable=False), CleanerConfig(threads=0)])
def test_cleaning_can_be_switched_off_and_on(tmp_path: Path, config: CleanerConfig) -> None:
    node = Node(tmp_path, config)
    log = node.create()
    fill(log)
    for _ in range(20):
        node.manager.tick(node.clock.now_ms)
    assert len(records_of(log)) == 21
    node.manager.cleaner.reconfigure(SOON)
    node.tick_until(lambda: len(records_of(log)) == 3)
    node.manager.close()


def test_appends_and_reads_go_on_meanwhile(node: Node) -> None:
    log = node.create(replace(COMPACTED, segment_bytes=2000))
    want = {}
    for i in range(3000):
        key, value = b"k%d" % (i % 50), b"%d" % i
        append_pairs(log, (key, value))
        want[key] = value
        if i % 100 == 0:
            node.clock.now_ms += 1
            node.manager.tick(node.clock.now_ms)
            assert table(records_of(log)) == want
    node.tick_until(lambda: len(records_of(log)) < 300)
    assert table(records_of(log)) == want


def test_retention_waits_for_the_clean_of_a_log_that_also_deletes(node: Node) -> None:
    config = replace(COMPACTED, cleanup_policy=frozenset(("compact", "delete")), retention_ms=1000)
    log = node.create(config)
    fill(log)
    node.files.gate.clear()
    node.tick_until(node.files.arrived.is_set)
    log.delete_records_before(5)
    node.clock.now_ms += 10_000
    node.manager.tick(node.clock.now_ms)
    assert log.segments.first.base_offset == 0
    node.files.gate.set()
    node.tick_until(lambda: log.segments.first.base_offset > 0)
    assert log.log_start_offset == log.segments.first.base_offset >= 20


def test_a_topic_deleted_and_made_again_meanwhile_has_nothing_of_the_old(node: Node) -> None:
    fill(node.create())
    node.files.gate.clear()
    node.tick_until(node.files.arrived.is_set)
    node.manager.delete("flights", 0)
    log = node.create()
    append_pairs(log, (b"new", b"1"))
    node.files.gate.set()
    node.tick_until(lambda: node.manager.cleaner.jobs == 0)
    assert leftovers(node.directory) == []
    assert table(records_of(log)) == {b"new": b"1"}
    fill(log)
    node.tick_until(lambda: len(records_of(log)) < 10)


def test_truncation_aborts_a_clean_and_moves_the_checkpoint(node: Node) -> None:
    log = node.create()
    fill(log)
    node.tick_until(lambda: (node.directory / CLEANED_OFFSETS).exists() and node.checkpoint() == {NAME: 20})
    fill(log)
    node.files.gate.clear()
    node.files.arrived.clear()
    node.tick_until(node.files.arrived.is_set)
    log.truncate_to(19)
    append_pairs(log, (b"k1", b"after"))
    node.files.gate.set()
    node.tick_until(lambda: node.manager.cleaner.jobs == 0 and node.checkpoint()[NAME] == 19)
    assert leftovers(node.directory) == []
    assert table(records_of(log)) == {b"k0": b"18", b"k1": b"after"}


def test_a_clean_ends_when_its_topic_is_no_longer_compacted(node: Node) -> None:
    log = node.create()
    fill(log)
    node.files.gate.clear()
    node.tick_until(node.files.arrived.is_set)
    node.manager.update_config("flights", 0, replace(COMPACTED, cleanup_policy=frozenset(("delete",))))
    node.files.gate.set()
    node.tick_until(lambda: node.manager.cleaner.jobs == 0)
    assert len(records_of(log)) == 21
    assert leftovers(node.directory) == []
    assert not (node.directory / CLEANED_OFFSETS).exists()
    node.manager.update_config("flights", 0, COMPACTED)
    node.tick_until(lambda: len(records_of(log)) == 3)


def test_new_configs_hold_for_cleans_under_way(tmp_path: Path) -> None:
    """Cleans restart with the new configs, and a change of the number of threads leaves none behind."""
    node = Node(tmp_path, SOON._replace(io_max_bytes_per_second=1))
    log = node.create(replace(COMPACTED, segment_bytes=64 << 10))
    for i in range(4000):
        append_pairs(log, (b"k%d" % (i % 2), b"%d" % i))
    node.tick_until(lambda: node.manager.cleaner.jobs == 1)
    time.sleep(0.35)  # the rate is looked at
    node.manager.cleaner.reconfigure(SOON._replace(threads=2))
    node.tick_until(lambda: len(records_of(log)) < 1000)
    node.manager.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("log-cleaner")]


def test_closing_ends_a_clean_and_leaves_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    log = node.create()
    fill(log)
    node.files.gate.clear()
    node.tick_until(node.files.arrived.is_set)
    threading.Timer(0.1, node.files.gate.set).start()
    node.manager.close()
    assert leftovers(tmp_path) == []
    again = Node(tmp_path)
    found = again.manager.get("flights", 0)
    assert found is not None
    assert len(records_of(found)) == 21
    again.manager.close()


@pytest.mark.parametrize(
    ("byte_in_batch", "complaint"), [(7, "is not within"), (2, "is not within"), (65, "fails its checksum")]
)
def test_a_damaged_batch_is_named_and_never_rewritten(
    node: Node, caplog: pytest.LogCaptureFixture, byte_in_batch: int, complaint: str
) -> None:
    log = node.create()
    fill(log)
    path = log.segments.first.file.path
    with path.open("r+b") as file:
        file.seek(log.segments.first.position_of(7, log.segments.first.size) + byte_in_batch)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x40]))
    other = node.create(partition=1)
    fill(other)
    with caplog.at_level(logging.ERROR):
        node.tick_until(lambda: NAME in node.manager.cleaner.uncleanable and len(records_of(other)) == 3)
    assert "flights-0" in caplog.text
    assert str(path) in caplog.text
    assert complaint in caplog.text
    assert log.segments.first.size == path.stat().st_size
    assert node.manager.cleaner.uncleanable_bytes() == path.stat().st_size
    assert leftovers(node.directory) == []
    node.manager.delete("flights", 0)
    assert node.manager.cleaner.uncleanable == set()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_malformed_records_stay_and_the_rest_is_cleaned(
    node: Node, caplog: pytest.LogCaptureFixture, codec: Codec
) -> None:
    """The keys of a batch that nobody can read displace no record that can be read."""
    log = node.create()
    keyed = [Record(0, START_MS, b"k%d" % (number % 2), b"damaged %d" % number) for number in range(5)]
    damaged = [
        data
        for name, data in damages(keyed, codec).items()
        if name in ("records cut short", "more records than stated", "noise", "value beyond the record")
    ]
    for data in damaged:
        fill(log, 10)
        append(log, data)
    fill(log, 10)
    end = log.segments.active.base_offset
    node.tick_until(lambda: (node.directory / CLEANED_OFFSETS).exists() and node.checkpoint() == {NAME: end})
    found = b"".join(segment.file.pread(segment.size, 0) for segment in log.segments)
    for data in damaged:
        assert data[HEADER_SIZE:] in found
    sound = [record for record in records_of_sound(found) if record.key != b"z"]
    assert [(record.key, record.value) for record in sound] == [(b"k0", b"8"), (b"k1", b"9")]
    assert caplog.text.count("damaged batch kept log=flights-0 first_offset=") == len(damaged)


def records_of_sound(data: bytes) -> list[Record]:
    """The records of the batches that can be read."""
    found: list[Record] = []
    for position, _ in batch.iter_headers(data):
        with suppress(MalformedRecords):
            found += list(decode_batch(data, position))
    return found


def test_a_full_disk_is_told_and_tried_again(node: Node) -> None:
    log = node.create()
    fill(log)
    node.files.error = OSError(28, "No space left on device")
    node.tick_until(lambda: len(node.errors) >= 2)
    node.files.error = None
    node.tick_until(lambda: len(records_of(log)) == 3)


def test_open_transactions_hold_the_clean_back(node: Node) -> None:
    log = node.create()
    append_pairs(log, (b"k0", b"open"), producer_id=3, producer_epoch=0, base_sequence=0, transactional=True)
    fill(log)
    for _ in range(10):
        node.manager.tick(node.clock.now_ms)
    assert len(records_of(log)) == 22
    append_marker(log, 3, 0, committed=False)
    node.tick_until(lambda: len(records_of(log)) == 3)


def test_throttler_keeps_the_rate_on_average() -> None:
    now_s = 0.0
    throttler = Throttler(1000, lambda: now_s)
    total = 0
    while now_s < 10:
        total += 100
        now_s += 0.01 + throttler.pause_s(100)
    assert total / now_s == pytest.approx(1000, rel=0.05)
    for unlimited in (1e18, -1.0):
        throttler.bytes_per_second = unlimited
        now_s += 1
        assert throttler.pause_s(10**6) == 0.0
    throttler.bytes_per_second = 0.0
    now_s += 1
    assert throttler.pause_s(10**6) > 10**6


def test_a_broken_checkpoint_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / CLEANED_OFFSETS).write_text("rubbish")
    node = Node(tmp_path)
    log = node.create()
    fill(log)
    node.tick_until(lambda: (tmp_path / CLEANED_OFFSETS).read_text() == "0\n1\nflights 0 20\n")
    assert len(records_of(log)) == 3
    node.manager.close()
