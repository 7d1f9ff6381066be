"""Random histories of transactions with faulty producers, networks, clocks and disks, and their invariants.

A simulation surrounds the coordinator: partitions that keep the epochs of producers as Kafka's do, and
processes that take over a transactional id from each other, write, commit, lose answers, and send late.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.coordinators.transaction.config import TransactionCoordinatorConfig
from penstock.coordinators.transaction.coordinator import TransactionCoordinator
from penstock.coordinators.transaction.metadata import TransactionMetadata
from penstock.coordinators.transaction.records import metadata_of, transaction_record
from penstock.coordinators.transaction.results import NeedsProducerId, TransactionMarkers
from penstock.coordinators.transaction.states import VALID_PREVIOUS_STATES, TransactionState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    EndTxnRequest,
    InitProducerIdRequest,
    TransactionLogKey,
    TransactionLogValue,
)
from penstock.protocol.record_serde import decode_versioned, encode_versioned

CONFIG = TransactionCoordinatorConfig(
    transactional_id_expiration_ms=400_000,
    transaction_remove_expired_transaction_cleanup_interval_ms=100_000,
)
IDS = ("s", "t")
PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
TIMEOUT_MS = 60_000
FIRST_EPOCH = 32_760  # so that histories reach the last one
RETRIABLE = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS}


@dataclass(eq=False)
class Transaction:
    """One transaction as its client sees it."""

    asked: bool | None = None  # the outcome that the client requests: True to commit
    told: bool | None = None  # the outcome that the client was told
    outcome: bool | None = None  # the outcome in the first marker


@dataclass(eq=False)
class Process:
    """A producer process with one transactional id."""

    transactional_id: str
    version: int
    producer_id: int = -1
    producer_epoch: int = -1
    transaction: Transaction = field(default_factory=Transaction)
    incarnation: int = 0

    @property
    def is_initialized(self) -> bool:
        return self.producer_id >= 0

    def give_up(self) -> None:
        self.producer_id = self.producer_epoch = -1
        self.transaction = Transaction()


@dataclass(frozen=True)
class Batch:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    where: tuple[str, int]
    transaction: Transaction


class Partition:
    """The epochs and open transactions of producers, as a partition leader keeps them."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.coordinator_epochs: dict[int, int] = {}
        self.open: dict[int, list[Transaction]] = {}

    def append(self, batch: Batch) -> bool:
        if batch.producer_epoch < self.epochs.get(batch.producer_id, -1):
            return False
        self.epochs[batch.producer_id] = batch.producer_epoch
        self.open.setdefault(batch.producer_id, []).append(batch.transaction)
        return True

    def end(self, markers: TransactionMarkers) -> None:
        producer_id = markers.producer_id
        if markers.producer_epoch < self.epochs.get(producer_id, -1):
            return
        if markers.coordinator_epoch < self.coordinator_epochs.get(producer_id, -1):
            return
        self.epochs[producer_id] = markers.producer_epoch
        self.coordinator_epochs[producer_id] = markers.coordinator_epoch
        for transaction in self.open.pop(producer_id, []):
            assert transaction.outcome in (None, markers.commit), "all partitions hear the same"
            assert transaction.told in (None, markers.commit), "and what the client was told"
            assert transaction.asked or not markers.commit, "nothing is committed unasked"
            transaction.outcome = markers.commit


class TransactionHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.log: Records = []
        self.is_refusing = False
        self.producer_ids = iter(range(100, 1_000_000))
        self.coordinator_epoch = -1
        self.transaction_version = 2
        self.partitions = {where: Partition() for where in PARTITIONS}
        self.processes = [
            Process(transactional_id, version)
            for transactional_id, versions in zip(IDS, ((2, 2), (0, 2)), strict=True)
            for version in versions
        ]
        self.batches: list[Batch] = []
        self.held: list[tuple[EndTxnRequest, int]] = []
        self.markers: list[tuple[TransactionMarkers, list[tuple[str, int]]]] = []
        self.owners: dict[tuple[int, int], tuple[Process, int]] = {}
        for number, transactional_id in enumerate(IDS):
            empty = TransactionMetadata(
                transactional_id, number, TIMEOUT_MS, self.now_ms, producer_epoch=FIRST_EPOCH
            )
            self.log.append(transaction_record(empty, 2))
        self.start()

    # -- the owner's tasks ---------------------------------------------------------------------------

    def start(self) -> None:
        self.coordinator_epoch += 1
        self.coordinator = TransactionCoordinator(
            CONFIG, coordinator_epoch=self.coordinator_epoch, transaction_version=self.transaction_version
        )
        self.states: dict[str, CoordinatorRecord] = {}
        for record in self.log:
            self.note(record)
            self.coordinator.replay(record, self.now_ms)
        self.settle(self.coordinator.on_loaded(self.now_ms))

    def settle(self, records: Records) -> ErrorCode:
        error = ErrorCode.NONE
        if records and self.is_refusing:
            self.is_refusing = False
            error = ErrorCode.NOT_ENOUGH_REPLICAS
            self.settle(self.coordinator.fail_append(records, error, self.now_ms))
        else:
            for record in records:
                self.check_step(record)
                self.log.append(record)
                self.coordinator.replay(record, self.now_ms)
        self.markers += [(markers, list(markers.partitions)) for markers in self.coordinator.take_markers()]
        for timed_out in self.coordinator.take_producer_id_requests():
            producer_id = next(self.producer_ids)
            self.settle(self.coordinator.abort_timed_out(timed_out, producer_id, self.now_ms))
        return error

    def note(self, record: CoordinatorRecord) -> CoordinatorRecord | None:
        """Keep the newest record of the id and return the previous one."""
        assert isinstance(record.key, TransactionLogKey)
        before = self.states.pop(record.key.transactional_id, None)
        if record.value is not None:
            self.states[record.key.transactional_id] = record
        return before

    def check_step(self, record: CoordinatorRecord) -> None:
        """Check that the log defines the step completely, and that the table of transitions allows it."""
        before = self.note(record)
        if record.value is None:
            assert before is not None
            assert self.metadata(before).state.has_no_transaction
            return
        decoded, _ = decode_versioned(
            TransactionLogValue, encode_versioned(record.value, record.value_version)
        )
        assert decoded == record.value
        after = metadata_of("", decoded)
        assert 0 <= after.producer_epoch <= 32_767
        if before is not None:
            was = self.metadata(before)
            assert was.state in VALID_PREVIOUS_STATES[after.state]
            assert (after.producer_id, after.producer_epoch) >= (was.producer_id, was.producer_epoch)

    def metadata(self, record: CoordinatorRecord) -> TransactionMetadata:
        assert isinstance(record.value, TransactionLogValue)
        return metadata_of("", record.value)

    # -- producers -----------------------------------------------------------------------------------

    @rule(index=st.integers(0, 3), goes_on=st.booleans(), lost=st.booleans())
    def init(self, index: int, goes_on: bool, lost: bool) -> None:
        process = self.processes[index]
        expects = goes_on and process.is_initialized
        request = InitProducerIdRequest(
            transactional_id=process.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=process.producer_id if expects else -1,
            producer_epoch=process.producer_epoch if expects else -1,
        )
        records, response = self.coordinator.handle_init_producer_id(request, self.now_ms)
        if isinstance(response, NeedsProducerId):
            assert not records
            producer_id = next(self.producer_ids)
            records, response = self.coordinator.handle_init_producer_id(request, self.now_ms, producer_id)
        assert not isinstance(response, NeedsProducerId)
        error = self.settle(records) or ErrorCode(response.error_code)
        if lost:
            return
        if error is ErrorCode.NONE:
            process.give_up()
            process.incarnation += 1
            process.producer_id, process.producer_epoch = response.producer_id, response.producer_epoch
            assert process.producer_epoch < 32_767
            owner = self.owners.setdefault(
                (process.producer_id, process.producer_epoch), (process, process.incarnation)
            )
            assert expects or owner == (process, process.incarnation), "two producers have the same epoch"
        elif error is ErrorCode.PRODUCER_FENCED:
            process.give_up()

    @rule(index=st.integers(0, 3), where=st.sampled_from(PARTITIONS), arrives=st.booleans())
    def write(self, index: int, where: tuple[str, int], arrives: bool) -> None:
        process = self.processes[index]
        if not process.is_initialized or process.transaction.asked is not None:
            return
        batch = Batch(
            process.transactional_id,
            process.producer_id,
            process.producer_epoch,
            where,
            process.transaction,
        )
        error = self.add(batch, process.version)
        if error is ErrorCode.NONE and arrives:
            if self.partitions[where].append(batch):
                self.batches.append(batch)
        elif error is not ErrorCode.NONE and error not in RETRIABLE:
            process.give_up()

    def add(self, batch: Batch, version: int) -> ErrorCode:
        records, error = self.coordinator.handle_add_partitions(
            batch.transactional_id,
            batch.producer_id,
            batch.producer_epoch,
            [batch.where],
            version,
            self.now_ms,
        )
        return self.settle(records) or error

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def a_batch_comes_again(self, data: st.DataObject) -> None:
        """A late batch begins no transaction in version 2; before that, sequence numbers reject most."""
        batch = data.draw(st.sampled_from(self.batches))
        if batch.transactional_id == "s" and self.add(batch, 2) is ErrorCode.NONE:
            assert batch.transaction.told is None
            self.partitions[batch.where].append(batch)

    @rule(index=st.integers(0, 3), where=st.sampled_from(PARTITIONS), commit=st.booleans())
    def a_whole_transaction(self, index: int, where: tuple[str, int], commit: bool) -> None:
        """Run a complete transaction that mostly succeeds, so that histories make progress."""
        if not self.processes[index].is_initialized:
            self.init(index, goes_on=False, lost=False)
        self.write(index, where, arrives=True)
        self.end(index, commit, "arrives")
        while self.markers:
            self.write_marker(0)

    @rule(index=st.integers(0, 3), commit=st.booleans(), fate=st.sampled_from(["arrives", "lost", "held"]))
    def end(self, index: int, commit: bool, fate: str) -> None:
        process = self.processes[index]
        if not process.is_initialized:
            return
        if process.transaction.asked is None:
            process.transaction.asked = commit
        request = EndTxnRequest(
            transactional_id=process.transactional_id,
            producer_id=process.producer_id,
            producer_epoch=process.producer_epoch,
            committed=process.transaction.asked,
        )
        if process.version == 2:  # the first protocol cannot distinguish a late request from the next one
            self.held.append((request, 2))
        if fate == "held":
            return
        error, producer = self.send_end(request, process.version)
        if fate == "lost" or error in RETRIABLE:
            return
        if error is ErrorCode.NONE:
            assert process.transaction.outcome in (None, request.committed)
            process.transaction.told = request.committed
            process.transaction = Transaction()
            if process.version == 2:
                process.producer_id, process.producer_epoch = producer
                assert process.producer_epoch < 32_767
                self.owners[producer] = (process, process.incarnation)
        else:
            process.give_up()

    def send_end(self, request: EndTxnRequest, version: int) -> tuple[ErrorCode, tuple[int, int]]:
        records, response = self.coordinator.handle_end_txn(request, version, self.now_ms)
        if isinstance(response, NeedsProducerId):
            assert not records
            producer_id = next(self.producer_ids)
            records, response = self.coordinator.handle_end_txn(request, version, self.now_ms, producer_id)
        assert not isinstance(response, NeedsProducerId)
        error = self.settle(records) or ErrorCode(response.error_code)
        return error, (response.producer_id, response.producer_epoch)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def an_old_end_arrives(self, data: st.DataObject) -> None:
        """A late EndTxn arrives, perhaps for the second time; its client no longer waits for the answer."""
        self.send_end(*data.draw(st.sampled_from(self.held)))

    # -- markers -------------------------------------------------------------------------------------

    @precondition(lambda self: self.markers)
    @rule(data=st.data(), refused=st.booleans())
    def a_marker_is_written(self, data: st.DataObject, refused: bool) -> None:
        self.is_refusing = refused
        self.write_marker(data.draw(st.integers(0, len(self.markers) - 1)))

    def write_marker(self, index: int) -> None:
        markers, waiting = self.markers[index]
        if waiting:
            self.partitions[waiting.pop()].end(markers)
        if not waiting:
            del self.markers[index]
            if markers.coordinator_epoch == self.coordinator_epoch:
                self.settle(
                    self.coordinator.on_markers_written(
                        markers.transactional_id, markers.producer_id, markers.producer_epoch, self.now_ms
                    )
                )

    # -- environment ---------------------------------------------------------------------------------

    @rule()
    def the_log_refuses(self) -> None:
        self.is_refusing = True

    @rule()
    def another_broker_takes_over(self) -> None:
        self.coordinator.on_unloaded()
        self.start()

    @rule(level=st.sampled_from([1, 2]))
    def the_feature_changes(self, level: int) -> None:
        self.transaction_version = level
        self.coordinator.set_transaction_version(level)

    @rule(by_ms=st.sampled_from([1, 5_000, 61_000, 200_000]), refused=st.booleans())
    def time_goes_by(self, by_ms: int, refused: bool) -> None:
        self.is_refusing = refused
        self.now_ms += by_ms
        self.fire()

    def fire(self) -> None:
        for _ in range(1_000):
            deadline_ms = self.coordinator.next_deadline_ms
            if deadline_ms is None or deadline_ms > self.now_ms:
                return
            self.settle(self.coordinator.on_timeout(self.now_ms))
        raise AssertionError("timers fire for ever")

    @invariant()
    def a_restart_would_find_the_same(self) -> None:
        for transactional_id, record in self.states.items():
            shown = self.coordinator.handle_describe_transaction(transactional_id)
            value = record.value
            assert isinstance(value, TransactionLogValue)
            assert TransactionState(shown.transaction_state).status == value.transaction_status
            assert (shown.producer_id, shown.producer_epoch) == (value.producer_id, value.producer_epoch)

    def teardown(self) -> None:
        """Check that no transaction is open once pending requests have arrived and timeouts have passed."""
        self.is_refusing = False
        for _ in range(3):
            self.now_ms += TIMEOUT_MS + 1
            self.fire()
            while self.markers:
                self.write_marker(0)
        assert not [list(pending) for pending in self.open_transactions()]
        assert not {state for state in self.coordinator.state_counts() if not state.has_no_transaction}

    def open_transactions(self) -> Iterator[list[Transaction]]:
        for partition in self.partitions.values():
            yield from partition.open.values()


TestTransactionHistories = TransactionHistories.TestCase
TestTransactionHistories.settings = settings(
    max_examples=4 * settings.default.max_examples, stateful_step_count=60
)
