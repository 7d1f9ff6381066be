"""Random histories of a compacted log, with kills and power cuts during cleans, against the raw log.

Invariants whenever the log is opened or read: from its start on it gives the same table as all records ever
written; every record was written at that offset; a reader that started earlier and is less than
`delete.retention.ms` behind gets that table too; the state of producers matches their records.
"""

import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from compaction_bench import Undisturbed, clean, keyed_batch
from log_building import Clock, append

from long_run import repetitions
from penstock.protocol import batch
from penstock.protocol.records import (
    ControlRecordType,
    control_record_type,
    decode_batch,
    encode_end_txn_marker,
)
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.config import LogConfig
from penstock.storage.errors import LogError
from penstock.storage.partition.log import Log
from penstock.storage.producers.staged_append import Origin
from penstock.testing.crash_files import CrashFiles, Died

HISTORIES = repetitions("PENSTOCK_HISTORIES", gate=40, long=800)
RETENTION_MS = 5_000
KEYS = [b"k%d" % i for i in range(7)]

Table = dict[bytes, bytes]


@dataclass
class Written:
    """One record as it was appended."""

    key: bytes
    value: bytes | None
    producer_id: int = -1
    """The producer id of a transactional record."""
    committed: bool | None = None
    """Whether its transaction was committed; None while it is open."""


@dataclass
class Reader:
    """A `read_committed` consumer that builds a table, a few batches at a time."""

    offset: int
    began_ms: int
    table: Table = field(default_factory=dict)
    aborting: set[int] = field(default_factory=set)

    def read(self, log: Log, max_bytes: int) -> bool:
        """Read more batches; return False at the last stable offset."""
        up_to = log.last_stable_offset(log.log_end_offset)
        piece = log.read(max(self.offset, log.log_start_offset), max_bytes, up_to_offset=up_to)
        if piece is None:
            return False
        aborted = sorted(
            log.aborted_transactions(self.offset, up_to, piece), key=lambda one: one.first_offset
        )
        data = piece.read()
        for position, header in batch.iter_headers(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                self.aborting.add(aborted.pop(0).producer_id)
            if header.is_control:
                marker = next(decode_batch(data, position), None)
                if marker and control_record_type(marker.key) is ControlRecordType.ABORT:
                    self.aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in self.aborting):
                for record in decode_batch(data, position):
                    if record.offset >= self.offset:
                        take(self.table, record.key or b"", record.value)
            self.offset = header.next_offset
        return True


def take(table: Table, key: bytes, value: bytes | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


class History:
    """A log in `root`, and the records written to it."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = random.Random(seed)
        self.files = CrashFiles(root, self.rng)
        self.directory = root / "flights-0"
        self.clock = Clock()
        self.config = LogConfig(
            cleanup_policy=frozenset(("compact",)),
            segment_bytes=self.rng.choice((300, 600, 2000)),
            index_interval_bytes=self.rng.choice((0, 200)),
            delete_retention_ms=RETENTION_MS,
            file_delete_delay_ms=100,
        )
        self.written: dict[int, Written] = {}
        self.open_transactions: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.checkpoint: int | None = None
        self.readers: list[Reader] = []
        self.flushed = 0
        self.log = self.open()

    def open(self) -> Log:
        return Log.open(
            self.directory,
            "flights",
            0,
            self.config,
            clean=False,
            recovery_point=0,
            clock=self.clock,
            files=self.files,
            rng=self.rng,
        )

    def run(self, steps: int) -> None:
        actions = (
            (10, self.append_plain),
            (4, self.append_idempotent),
            (6, self.append_transactional),
            (4, self.end_transaction),
            (4, self.clean),
            (4, self.read_on),
            (2, self.begin_to_read),
            (1, self.wait),
            (1, self.flush),
            (1, self.die),
        )
        weights, calls = zip(*actions, strict=True)
        for _ in range(steps):
            self.rng.choices(calls, weights)[0]()
        self.die()
        self.check()

    # --- operations

    def pairs(self) -> list[tuple[bytes, bytes | None]]:
        count = self.rng.randrange(1, 4)
        return [
            (self.rng.choice(KEYS), self.rng.choice((None, b"v%d" % self.rng.randrange(10**6), b"w" * 60)))
            for _ in range(count)
        ]

    def write(self, producer_id: int = -1, *, transactional: bool = False) -> None:
        pairs = self.pairs()
        options: dict[str, object] = {"compression": self.rng.choice((0, 0, 1, 4))}
        if producer_id >= 0:
            options |= {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": self.sequences.get(producer_id, 0),
                "transactional": transactional,
            }
        first = append(self.log, keyed_batch(pairs, self.clock.now_ms, **options)).first_offset
        for offset, (key, value) in enumerate(pairs, first):
            self.written[offset] = Written(
                key, value, producer_id if transactional else -1, None if transactional else True
            )
        if producer_id >= 0:
            self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(pairs)

    def append_plain(self) -> None:
        self.write()

    def append_idempotent(self) -> None:
        self.write(self.rng.choice((11, 12)))

    def append_transactional(self) -> None:
        producer_id = self.rng.choice((21, 22, 23))
        self.open_transactions.setdefault(producer_id, self.log.log_end_offset)
        self.write(producer_id, transactional=True)

    def end_transaction(self) -> None:
        if not self.open_transactions:
            return
        producer_id = self.rng.choice(list(self.open_transactions))
        committed = self.rng.random() < 0.5
        marker = encode_end_txn_marker(
            committed=committed,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.clock.now_ms,
        )
        append(self.log, marker, origin=Origin.COORDINATOR)
        first = self.open_transactions.pop(producer_id)
        for offset, record in self.written.items():
            if record.producer_id == producer_id and offset >= first:
                record.committed = committed

    def clean(self) -> None:
        if len(self.log.segments) < 2:
            return
        memory = self.rng.choice((24 * 4, 200 * 100))
        surroundings = Undisturbed(self.log, lambda: self.read_on() if self.rng.random() < 0.5 else None)
        self.checkpoint = clean(
            self.log,
            self.clock.now_ms,
            self.checkpoint,
            config=CleanerConfig(dedupe_buffer_size=memory),
            files=self.files,
            surroundings=surroundings,
        ).end_offset
        self.check()

    def begin_to_read(self) -> None:
        self.readers.append(Reader(0, self.clock.now_ms))

    def read_on(self) -> None:
        for reader in self.readers:
            reader.read(self.log, self.rng.choice((1, 200, 10_000)))

    def wait(self) -> None:
        self.clock.now_ms += self.rng.choice((10, 1000, RETENTION_MS))
        self.log.remove_deleted_files(self.clock.now_ms)
        self.readers = [r for r in self.readers if self.clock.now_ms - r.began_ms < RETENTION_MS]

    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.log_end_offset

    def die(self) -> None:
        """Die by a kill, or by a power cut after a flush of everything, mostly during a clean."""
        cuts_power = self.rng.random() < 0.4
        if cuts_power:
            self.flush()
        self.files.dies_in = self.rng.randrange(1, 120)
        with suppress(Died, LogError):
            self.clean()
            self.log.flush()
        if cuts_power:
            self.files.cut_power()
        else:
            self.files.kill()
        if self.rng.random() < 0.3:
            self.files.dies_in = self.rng.randrange(1, 60)
            with suppress(Died):
                self.open()
            self.files.kill()
        self.log = self.open()
        self.check()

    # --- invariants

    def check(self) -> None:
        log = self.log
        end = max([*self.written, -1]) + 1
        assert log.log_end_offset >= end
        reader = Reader(0, self.clock.now_ms)
        while reader.read(log, 10_000):
            pass
        assert reader.table == self.expected()
        self.check_records()
        for producer_id, sequence in self.sequences.items():
            assert log.producer_state.producers[producer_id].last_sequence == sequence - 1
        assert {
            entry.producer_id: entry.txn_first_offset
            for entry in log.producer_state.producers.values()
            if entry.txn_first_offset >= 0
        } == self.open_transactions
        for reader in self.readers:
            late = Reader(reader.offset, reader.began_ms, dict(reader.table), set(reader.aborting))
            while late.read(log, 500):
                pass
            assert late.table == self.expected(), f"a reader that had come to offset {reader.offset}"

    def expected(self) -> Table:
        table: Table = {}
        stable = self.log.last_stable_offset(self.log.log_end_offset)
        for offset, record in self.written.items():
            if record.committed and offset < stable:
                take(table, record.key, record.value)
        return table

    def check_records(self) -> None:
        """Check that all records were written at their offsets, that offsets rise and can be fetched."""
        offset = last = -1
        while (piece := self.log.read(offset + 1, 2000)) is not None:
            data = piece.read()
            for position, header in batch.iter_headers(data):
                assert header.base_offset > last
                last = offset = header.last_offset
                assert batch.crc_is_valid(data, header, position)
                if not header.is_control:
                    for record in decode_batch(data, position):
                        written = self.written[record.offset]
                        assert (record.key, record.value) == (written.key, written.value)
        for offset in range(0, self.log.log_end_offset, 5):
            piece = self.log.read(offset, 1)
            assert piece is not None
            assert batch.parse_header(piece.read()).last_offset >= offset


@pytest.mark.longer
@pytest.mark.parametrize("seeds", range(HISTORIES // 10))
def test_compacted_log_gives_the_table_of_the_raw_one(seeds: int, tmp_path: Path) -> None:
    in_memory = Path("/dev/shm")  # syncs are free there
    for seed in range(seeds * 10, seeds * 10 + 10):
        print(f"seed {seed}")
        with TemporaryDirectory(dir=in_memory if in_memory.is_dir() else tmp_path) as root:
            History(seed, Path(root)).run(steps=60)
