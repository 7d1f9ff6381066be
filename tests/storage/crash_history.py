"""Random histories of a node's logs on a failing disk, from a seed, compared with a list of batches.

A history has a log manager with one or two directories and a few partitions. It runs appends (plain,
idempotent, transactional), markers, flushes, rolls, retention, DeleteRecords, truncations and checkpoints,
and deletes and recreates topics. The process or the machine dies in the middle of any call. After each start:

- all acknowledged and flushed batches are there (after the death of the process: all acknowledged ones);
- the log contains what was appended, byte for byte, in that order, without holes; one pending append
  may be there, whole;
- a bit that flips while the node is down is detected, and the damaged data is never served;
- producers, open transactions, the index of aborted ones and leader epochs match the records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from log_building import START_MS, Clock

from penstock.protocol import batch
from penstock.protocol.records import Record, encode_batch, encode_end_txn_marker
from penstock.storage import inspection
from penstock.storage.config import LogConfig
from penstock.storage.directories.log_directory import CLEAN_SHUTDOWN_FILE
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.errors import CorruptLog, LogDirectoryError, LogError, StorageFailed
from penstock.storage.names import TopicPartition
from penstock.storage.partition.log import Log
from penstock.storage.producers.staged_append import Origin
from penstock.testing.crash_files import CrashFiles, Died

_UNCHECKED_BYTES = 16  # no checksum covers the leader epoch, offset and length


class LateWorkers(Executor):
    """Workers whose tasks wait for `run`, or run at once while `eager`: a seed decides, not the scheduler."""

    def __init__(self) -> None:
        self.eager = True
        self._waiting: deque[tuple[Future[object], Callable[[], object]]] = deque()

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        if self.eager:
            self.run()
        return future

    def run(self) -> None:
        while self._waiting:
            future, work = self._waiting.popleft()
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

    def cancel(self) -> None:
        self._waiting.clear()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: there are no threads to wait for."""


@dataclass(slots=True)
class Appended:
    """One batch as it was appended to the log."""

    first: int
    last: int
    data: bytes
    epoch: int
    producer_id: int = -1
    last_sequence: int = -1
    transactional: bool = False
    committed: bool | None = None  # set for a marker


@dataclass(slots=True)
class Model:
    """The expected state of one partition."""

    name: TopicPartition
    topic_id: bytes
    batches: list[Appended] = field(default_factory=list)
    maybe: Appended | None = None
    untruncated: list[Appended] | None = None
    """The batches before a truncation during which the process died."""
    start: int = 0
    durable_start: int = 0
    deleted_to: int = 0
    """The highest log start so far: epochs below it may be missing even if a crash restores records."""
    flushed: int = 0
    epoch: int = 0
    next_sequence: dict[int, int] = field(default_factory=dict)
    open_since: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def accept(self, appended: Appended) -> None:
        self.batches.append(appended)
        self.note(appended)

    def note(self, appended: Appended) -> None:
        producer_id = appended.producer_id
        if producer_id < 0:
            return
        if appended.committed is not None:
            self.open_since.pop(producer_id, None)
        else:
            self.next_sequence[producer_id] = appended.last_sequence + 1
            if appended.transactional:
                self.open_since.setdefault(producer_id, appended.first)

    def renote(self) -> None:
        self.next_sequence.clear()
        self.open_since.clear()
        for appended in self.batches:
            if appended.last >= self.start:
                self.note(appended)


class Violation(AssertionError):
    """An invariant does not hold; the message names it and the partition."""


class CrashHistory:
    """One history from `seed` under `root`, an empty directory; `run` raises Violation."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = rng = Random(seed)
        self.files = CrashFiles(root, rng)
        self.clock = Clock()
        self.directories = [root / f"disk{i}" for i in range(rng.choice((1, 1, 2)))]
        self.config = LogConfig(
            segment_bytes=rng.choice((400, 1000, 4000)),
            index_interval_bytes=rng.choice((0, 100, 1000)),
            retention_ms=-1,
            file_delete_delay_ms=rng.choice((0, 50)),
            preallocate=rng.random() < 0.1,
        )
        self.error_rate = rng.choice((0.0, 0.0, 0.02))
        self.models: dict[TopicPartition, Model] = {}
        self.topics = 0
        self.next_producer_id = 1
        self.story: list[str] = []
        self.workers = LateWorkers()
        self.manager: LogManager | None = None

    def run(self, steps: int = 40) -> None:
        try:
            self.start(lost_power=False, clean=False)
            for _ in range(steps):
                self.rng.choices(_OPERATIONS, _WEIGHTS)[0](self)
                if self.manager is None:
                    self.restart()
            self.end_process()
            self.restart()
            self.flip_a_bit()
        finally:
            self.end_process()

    def tell(self, text: str) -> None:
        self.story.append(f"{self.files.calls}: {text}")

    # --- life and death

    def restart(self) -> None:
        """Restart after the death of the process, or a power cut."""
        clean = all((path / CLEAN_SHUTDOWN_FILE).exists() for path in self.directories)
        lost_power = self.rng.random() < 0.6
        if lost_power:
            self.files.cut_power()
        else:
            self.files.kill()
        self.tell(f"restart {lost_power=} {clean=}")
        self.start(lost_power=lost_power, clean=clean)

    def end_process(self) -> None:
        if self.manager is not None:
            for directory in self.manager.directories:
                directory.release()
        self.manager = None

    def start(self, *, lost_power: bool, clean: bool) -> None:
        """Open the logs, with occasional deaths on the way, and check their content."""
        deaths = self.rng.choice((0, 0, 0, 1, 2))
        while True:
            self.files.error_rate = 0.0
            self.files.dies_in = self.rng.randrange(60) if deaths else -1
            try:
                self.open_manager()
                break
            except Died:
                deaths -= 1
                clean = False
                self.end_process()
                power = self.rng.random() < 0.5
                self.tell(f"died in start {power=}")
                if power:
                    self.files.cut_power()
                    lost_power = True
                else:
                    self.files.kill()
            except LogDirectoryError as error:
                raise Violation(f"the start is refused: {error}") from error
        self.files.dies_in = -1
        for model in self.models.values():
            self.check_start(model, lost_power=lost_power and not clean)
        self.files.error_rate = self.error_rate

    def open_manager(self) -> None:
        self.workers.cancel()
        self.workers.eager = True
        self.manager = LogManager(
            self.directories,
            node_id=1,
            cluster_id="crash",
            clock=self.clock,
            files=self.files,
            rng=self.rng,
            workers=lambda count: self.workers,
        )
        self.manager.load(lambda topic: self.config)
        for log in self.manager:
            model = self.models.get(log.name)
            if model is None or log.topic_id not in (None, model.topic_id):
                self.manager.set_aside(*log.name)
        for model in self.models.values():
            self.manager.create(model.name.topic, model.topic_id, model.name.partition, self.config)
        self.workers.eager = False

    def stop(self) -> None:
        """Stop cleanly; a power cut may follow at once."""
        assert self.manager is not None
        self.tell("stop")
        self.workers.cancel()
        self.workers.eager = True
        self.guarded(lambda: self.manager.close(), ())  # type: ignore[union-attr]
        for model in self.models.values():
            log = self.manager and self.manager.get(*model.name)
            if log is not None and (log.directory.parent / CLEAN_SHUTDOWN_FILE).exists():
                model.flushed, model.durable_start = model.end, model.start
        self.end_process()

    def guarded(self, work: Callable[[], object], expected: tuple[type[Exception], ...]) -> bool:
        """Do `work` and return whether it succeeded. A failure is valid only after an injected error."""
        try:
            work()
            return True
        except Died:
            self.tell("died")
            self.end_process()
        except expected as error:
            self.tell(f"failed: {error}")
            if not self.error_rate:
                raise Violation(f"without any fault: {error!r}") from error
        return False

    def flip_a_bit(self) -> None:
        """Damage a batch on the disk of a stopped node; check that it is detected, named and never served."""
        assert self.manager is not None
        self.files.error_rate = 0.0
        places = [log.segments.first.file.path for log in self.manager if log.segments.first.size]
        if not places:
            return
        path = self.rng.choice(places)
        self.stop() if self.rng.random() < 0.5 else self.end_process()
        with inspection.mapped(path) as data:
            found = self.rng.choice(list(inspection.batches(data)))
            offset = found.header.base_offset
            position = self.rng.randrange(found.position + _UNCHECKED_BYTES, found.position + len(found.data))
            found.data.release()
        self.tell(f"flip a bit of offset {offset}, byte {position} of {path}")
        self.files.damage(path, position, 1 << self.rng.randrange(8))
        told = inspection.verify_partition(path.parent).findings
        if not any(f.is_damage and f.file == path and f.offset == offset for f in told):
            raise Violation(f"verify does not tell of offset {offset} in {path}: {told}")
        self.open_manager()
        for model in self.models.values():
            log = self.log_of(model)
            if log is None:
                raise Violation(f"{model.name} is missing")
            if log.directory != path.parent:
                self.check_start(model, lost_power=self.files.lost_pages)
            else:
                self.check_nothing_damaged_is_served(model, log)

    def check_nothing_damaged_is_served(self, model: Model, log: Log) -> None:
        written = {appended.first: appended.data for appended in model.batches}
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            try:
                piece = log.read(offset, 1)
            except CorruptLog:
                return
            if piece is None:
                raise Violation(f"{log} gives nothing at offset {offset}")
            data = piece.read()
            header = batch.parse_header(data)
            if not batch.crc_is_valid(data, header):
                return  # the check before serving a batch from disk finds it
            if written.get(header.base_offset) != data:
                raise Violation(f"{log} serves what was not written at offset {header.base_offset}")
            offset = header.next_offset

    # --- invariants

    def check_start(self, model: Model, *, lost_power: bool) -> None:
        log = self.log_of(model)
        if log is None:
            raise Violation(f"{model.name} is missing")
        start, end = log.log_start_offset, log.log_end_offset
        model.deleted_to = max(model.deleted_to, model.start)
        found = batches_in(log)
        written = [*model.batches, *([model.maybe] if model.maybe else [])]
        lost_power = lost_power or self.files.lost_pages
        must_reach = model.flushed if lost_power else model.end
        lowest_start = model.durable_start
        if not lowest_start <= start <= model.start:
            raise Violation(f"{log} starts outside of {lowest_start} to {model.start}")
        if model.untruncated is not None and not _is_prefix(found, start, written):
            written = model.untruncated
        if not _is_prefix(found, start, written):
            raise Violation(f"{log} has other records than were appended: {_differences(found, written)}")
        if end < must_reach:
            raise Violation(
                f"{log} lost what was {'flushed' if lost_power else 'acknowledged'}: {must_reach}"
            )
        if end != (found[-1].next_offset if found else start):
            raise Violation(f"{log} ends elsewhere than its records")
        model.batches = [appended for appended in written if appended.last < end]
        model.maybe = model.untruncated = None
        model.start, model.flushed = start, min(model.flushed, end)
        model.renote()
        if not model.batches or model.end < end:  # restarted at its start offset
            model.batches = [Appended(end - 1, end - 1, b"", -1)] if end else []
        self.check_state(model, log)
        if (latest := log.leader_epochs.latest) > model.epoch:
            raise Violation(f"{log} knows epoch {latest}, and {model.epoch} is the newest")
        model.epoch += self.rng.random() < 0.7

    def check_state(self, model: Model, log: Log) -> None:
        """Check the state that follows from the records: producers, transactions, epochs."""
        live = [appended for appended in model.batches if appended.first >= model.deleted_to]
        first_base = log.segments.first.base_offset
        producers = log.producer_state.producers
        for producer_id, sequence in model.next_sequence.items():
            entry = producers.get(producer_id)
            if entry is None or entry.last_sequence != sequence - 1:
                raise Violation(
                    f"{log}: producer {producer_id} is {entry and entry.last_sequence}, not {sequence - 1}"
                )
        for producer_id, since in model.open_since.items():
            entry = producers.get(producer_id)
            if entry is None or not 0 <= entry.txn_first_offset <= since:
                raise Violation(f"{log}: the transaction of {producer_id} since {since} is not open")
        for producer_id, entry in producers.items():
            if (
                entry.txn_first_offset >= 0
                and producer_id in model.next_sequence
                and producer_id not in model.open_since
            ):
                raise Violation(f"{log}: a transaction of {producer_id} is open that ended")
        aborted = {(a.producer_id, a.last_offset) for a in log.aborted_transactions(0, log.log_end_offset)}
        open_since: dict[int, int] = {}
        for appended in model.batches:
            if appended.transactional and appended.committed is None and appended.last >= model.deleted_to:
                open_since.setdefault(appended.producer_id, appended.first)
            elif appended.committed is not None:
                begun = open_since.pop(appended.producer_id, None)
                place = (appended.producer_id, appended.first)
                if begun is None or appended.first < max(first_base, log.log_start_offset):
                    aborted.discard(place)
                elif (place in aborted) is appended.committed:
                    raise Violation(
                        f"{log}: the index of aborted transactions is wrong on {place}: {aborted}"
                    )
                aborted.discard(place)
        if aborted:
            raise Violation(f"{log}: the index knows aborted transactions that were not: {aborted}")
        for appended in live:
            if log.leader_epochs.epoch_for(appended.first) != appended.epoch and appended.data:
                raise Violation(
                    f"{log}: offset {appended.first} was written in epoch {appended.epoch}, which "
                    f"{log.leader_epochs.entries} don't tell"
                )

    def log_of(self, model: Model) -> Log | None:
        assert self.manager is not None
        return self.manager.get(*model.name)

    def check_reads(self, model: Model, log: Log) -> None:
        found = batches_in(log)
        if not _is_prefix(found, log.log_start_offset, model.batches) or log.log_end_offset != max(
            model.end, log.log_start_offset
        ):
            raise Violation(f"{log} reads what was not appended: {_differences(found, model.batches)}")

    # --- operations

    def pick(self) -> tuple[Model, Log] | None:
        """A partition whose log exists and accepts appends."""
        if not self.models:
            self.create()
            if self.manager is None or not self.models:
                return None
        model = self.rng.choice(list(self.models.values()))
        log = self.log_of(model)
        return (model, log) if log is not None and log.failure is None else None

    def create(self) -> None:
        assert self.manager is not None
        if len(self.models) >= 3:
            return
        self.topics += 1
        name = TopicPartition("ab"[self.topics % 2], self.rng.randrange(2))
        if name in self.models:
            return
        model = self.models[name] = Model(name, self.topics.to_bytes(16, "big"))
        self.tell(f"create {name}")
        created = self.guarded(
            lambda: self.manager.create(*name[:1], model.topic_id, name.partition, self.config),  # type: ignore[union-attr]
            (OSError, LogError),
        )
        if not created and self.manager is not None:
            del self.models[name]

    def delete(self) -> None:
        if not (picked := self.pick()):
            return
        model, _ = picked
        del self.models[model.name]
        self.tell(f"delete {model.name}")
        self.guarded(lambda: self.manager.delete(*model.name), (OSError,))  # type: ignore[union-attr]

    def append(self) -> None:
        if not (picked := self.pick()):
            return
        model, log = picked
        count = self.rng.randint(1, 4)
        size = self.rng.choice((1, 20, 60))
        kind = self.rng.choice(("plain", "idempotent", "transactional"))
        options: dict[str, object] = {}
        producer_id = -1
        if kind != "plain":
            known = [p for p in model.next_sequence if (p % 2 == 0) is (kind == "transactional")]
            if known and self.rng.random() < 0.8:
                producer_id = self.rng.choice(known)
            else:
                self.next_producer_id += 2
                producer_id = self.next_producer_id + (self.next_producer_id % 2 == (kind == "transactional"))
            options = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": model.next_sequence.get(producer_id, 0),
                "transactional": kind == "transactional",
            }
        timestamp = START_MS + self.files.calls
        values = [self.rng.randbytes(size) for _ in range(count)]
        data = bytearray(
            encode_batch([Record(i, timestamp, b"k", v) for i, v in enumerate(values)], **options)
        )
        first = log.log_end_offset
        appended = Appended(
            first,
            first + count - 1,
            b"",
            model.epoch,
            producer_id,
            model.next_sequence.get(producer_id, 0) + count - 1,
            kind == "transactional",
        )
        self.write(model, log, appended, data, Origin.CLIENT)

    def end_transaction(self) -> None:
        picked = self.pick()
        if not picked or not picked[0].open_since:
            return
        model, log = picked
        producer_id = self.rng.choice(list(model.open_since))
        committed = self.rng.random() < 0.5
        marker = encode_end_txn_marker(
            committed=committed,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=START_MS + self.files.calls,
        )
        first = log.log_end_offset
        appended = Appended(first, first, b"", model.epoch, producer_id, -1, True, committed)
        self.write(model, log, appended, bytearray(marker), Origin.COORDINATOR)

    def write(self, model: Model, log: Log, appended: Appended, data: bytearray, origin: Origin) -> None:
        headers = [header for _, header in batch.iter_headers(data)]
        self.tell(f"append {model.name} {appended.first}-{appended.last} {appended.producer_id}")
        done = self.guarded(
            lambda: log.append(memoryview(data), headers, model.epoch, origin=origin), (StorageFailed,)
        )
        appended.data = bytes(data)
        if done:
            model.accept(appended)
        elif self.manager is None or log.failure is not None:
            model.maybe = appended

    def flush(self) -> None:
        if not (picked := self.pick()):
            return
        model, log = picked
        self.tell(f"flush {model.name} {log.log_end_offset}")
        if self.guarded(log.flush, (StorageFailed,)):
            model.flushed = log.log_end_offset

    def roll(self) -> None:
        if picked := self.pick():
            self.tell(f"roll {picked[0].name}")
            self.guarded(picked[1].roll, (StorageFailed,))

    def truncate(self) -> None:
        if not (picked := self.pick()):
            return
        model, log = picked
        boundaries = [a.first for a in model.batches if a.first >= log.log_start_offset]
        if not boundaries or (log.log_start_offset > log.segments.first.base_offset):
            return
        offset = self.rng.choice(boundaries)
        self.tell(f"truncate {model.name} {offset}")
        before = list(model.batches)
        model.flushed = min(model.flushed, offset)
        done = self.guarded(lambda: log.truncate_to(offset), (StorageFailed,))
        model.batches = [a for a in before if a.last < offset]
        if done:
            if model.batches == [] and offset:
                model.batches = [Appended(offset - 1, offset - 1, b"", -1)]
            model.renote()
            model.epoch += 1
        else:
            model.untruncated = before

    def delete_records(self) -> None:
        if not (picked := self.pick()):
            return
        model, log = picked
        offset = self.rng.randint(log.log_start_offset, log.log_end_offset)
        self.tell(f"delete records {model.name} {offset}")
        model.start = max(model.start, offset)
        self.guarded(lambda: log.delete_records_before(offset), ())
        if self.rng.random() < 0.5:
            self.checkpoint_start_offsets()

    def checkpoint_start_offsets(self) -> None:
        if self.manager is None:
            return
        starts = {log.name: log.log_start_offset for log in self.manager}
        self.tell("checkpoint start offsets")
        if self.guarded(self.manager.checkpoint_log_start_offsets, (OSError,)):
            for name, start in starts.items():
                if name in self.models and start > self.log_start_in_files(name):
                    self.models[name].durable_start = start

    def log_start_in_files(self, name: TopicPartition) -> int:
        """The start of the first segment: a log start there is not checkpointed."""
        assert self.manager is not None
        log = self.manager.get(*name)
        return log.segments.first.base_offset if log else 0

    def checkpoint_recovery_points(self) -> None:
        assert self.manager is not None
        self.tell("checkpoint recovery points")
        self.guarded(self.manager.checkpoint_recovery_points, (OSError,))

    def retain(self) -> None:
        if not (picked := self.pick()):
            return
        model, log = picked
        log.update_config(
            LogConfig(
                segment_bytes=self.config.segment_bytes,
                index_interval_bytes=self.config.index_interval_bytes,
                retention_ms=-1,
                file_delete_delay_ms=self.config.file_delete_delay_ms,
                retention_bytes=self.rng.choice((0, 500, 3000)),
            )
        )
        self.tell(f"retain {model.name}")
        self.guarded(lambda: log.delete_old_segments(self.clock()), (StorageFailed,))
        model.start = max(model.start, log.log_start_offset)
        log.update_config(self.config)

    def remove_files(self) -> None:
        assert self.manager is not None
        self.clock.now_ms += 100
        self.tell("remove files")
        self.guarded(lambda: self.manager.remove_deleted_files(self.clock()), (OSError,))  # type: ignore[union-attr]

    def background(self) -> None:
        self.tell("background")
        self.guarded(self.workers.run, ())

    def read(self) -> None:
        if picked := self.pick():
            rate, self.files.error_rate = self.files.error_rate, 0.0
            self.guarded(lambda: self.check_reads(*picked), ())
            self.files.error_rate = rate

    def arm(self) -> None:
        self.files.dies_in = self.rng.randrange(12)

    def die(self) -> None:
        self.tell("die")
        self.end_process()


class Found(tuple[int, int, bytes]):
    """The (first offset, next offset, bytes) of a batch that was read."""

    @property
    def next_offset(self) -> int:
        return self[1]


def batches_in(log: Log) -> list[Found]:
    """All batches from the log start on, read and checked as a consumer does."""
    found: list[Found] = []
    offset = log.log_start_offset
    while (piece := log.read(offset, 1 << 20)) is not None:
        data = piece.read()
        for position, header in batch.iter_headers(data):
            if not batch.crc_is_valid(data, header, position):
                raise Violation(f"{log}: a damaged batch at offset {header.base_offset} is served")
            end = position + header.size_bytes
            found.append(Found((header.base_offset, header.next_offset, data[position:end])))
        if found[-1].next_offset <= offset:
            raise Violation(f"{log}: reading offset {offset} gives offsets up to {found[-1].next_offset}")
        offset = found[-1].next_offset
    return found


def _is_prefix(found: list[Found], start: int, written: list[Appended]) -> bool:
    """Whether `found` is a prefix of the batches written from the batch of `start` on."""
    expected = [appended for appended in written if appended.last >= start]
    return len(found) <= len(expected) and all(
        data == appended.data for (_, _, data), appended in zip(found, expected, strict=False)
    )


def _differences(found: list[Found], written: list[Appended]) -> str:
    return (
        f"found {[(first, end - 1) for first, end, _ in found]}, "
        f"written {[(appended.first, appended.last) for appended in written]}"
    )


_WEIGHED: dict[Callable[[CrashHistory], None], int] = {
    CrashHistory.append: 30,
    CrashHistory.end_transaction: 5,
    CrashHistory.flush: 5,
    CrashHistory.roll: 2,
    CrashHistory.truncate: 1,
    CrashHistory.delete_records: 2,
    CrashHistory.checkpoint_start_offsets: 1,
    CrashHistory.checkpoint_recovery_points: 2,
    CrashHistory.retain: 2,
    CrashHistory.remove_files: 2,
    CrashHistory.background: 4,
    CrashHistory.read: 2,
    CrashHistory.create: 3,
    CrashHistory.delete: 1,
    CrashHistory.arm: 5,
    CrashHistory.die: 1,
    CrashHistory.stop: 1,
}
_OPERATIONS, _WEIGHTS = list(_WEIGHED), list(_WEIGHED.values())
