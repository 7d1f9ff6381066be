"""The coordinator of the transactional ids in one partition of `__transaction_state`."""

from collections import Counter
from collections.abc import Collection

from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.coordinators.transaction import add_partitions, admin, replay, timeouts
from penstock.coordinators.transaction.config import TransactionCoordinatorConfig
from penstock.coordinators.transaction.end_txn import handle_end_txn
from penstock.coordinators.transaction.init_producer_id import handle_init_producer_id
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.coordinators.transaction.results import NeedsProducerId, TimedOut, TransactionMarkers
from penstock.coordinators.transaction.shard import Counters, Shard, TimerKind
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsResponse,
    TransactionLogKey,
    TransactionLogValue,
)

__all__ = ["TransactionCoordinator"]


class TransactionCoordinator:
    """The transactional ids of one partition as a pure state machine.

    Its owner must

    - append the records of each call as one batch, in the order of the calls, and make no other call for
      their transactional ids until they are replayed or have failed;
    - then either `replay` each of them, in the order of the log, once they are committed, or call
      `fail_append`;
    - call `take_markers` after every call, and write the markers no earlier than the records of that call are
      durable; retry until every partition has its marker or is gone, and then call `on_markers_written`;
    - repeat a call that returns `NEEDS_PRODUCER_ID` with a new producer id, and serve
      `take_producer_id_requests` likewise;
    - call `on_timeout` until `next_deadline_ms` lies in the future.

    Errors are those of the newest version of each API; the caller translates PRODUCER_FENCED for older
    clients. A response built before `fail_append` is no longer valid: the owner sends the error instead.
    """

    def __init__(
        self, config: TransactionCoordinatorConfig, *, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Create an empty coordinator; `coordinator_epoch` is the leader epoch of the partition."""
        self._shard = Shard(config, coordinator_epoch, transaction_version)

    def set_transaction_version(self, transaction_version: int) -> None:
        """Set the level of the cluster's feature transaction.version."""
        self._shard.transaction_version = transaction_version

    # -- requests ------------------------------------------------------------------------------------

    def handle_init_producer_id(
        self, request: InitProducerIdRequest, now_ms: int, new_producer_id: int | None = None
    ) -> tuple[Records, InitProducerIdResponse | NeedsProducerId]:
        """Assign a producer id and epoch to a transactional id; producers without one need no coordinator."""
        return handle_init_producer_id(self._shard, request, now_ms, new_producer_id)

    def handle_add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        transaction_version: int,
        now_ms: int,
    ) -> tuple[Records, ErrorCode]:
        """Add all of the partitions or none.

        `transaction_version` is the client's: 0 for AddOffsetsToTxn and for AddPartitionsToTxn up to version
        3, else 2.
        """
        return add_partitions.handle_add_partitions(
            self._shard,
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            transaction_version,
            now_ms,
        )

    def handle_verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Check whether each partition takes part in the open transaction."""
        return add_partitions.handle_verify_partitions(
            self._shard, transactional_id, producer_id, producer_epoch, partitions
        )

    def handle_end_txn(
        self,
        request: EndTxnRequest,
        transaction_version: int,
        now_ms: int,
        new_producer_id: int | None = None,
    ) -> tuple[Records, EndTxnResponse | NeedsProducerId]:
        """End a transaction; `transaction_version` is the client's: 0 for EndTxn up to version 4, else 2."""
        return handle_end_txn(self._shard, request, transaction_version, now_ms, new_producer_id)

    def handle_describe_transaction(
        self, transactional_id: str
    ) -> DescribeTransactionsResponse.TransactionState:
        return admin.handle_describe_transaction(self._shard, transactional_id)

    def handle_list_transactions(
        self, transaction_filter: admin.TransactionFilter, now_ms: int
    ) -> list[ListTransactionsResponse.TransactionState]:
        return admin.handle_list_transactions(self._shard, transaction_filter, now_ms)

    def is_ending(self, transactional_id: str) -> bool:
        """Whether a transaction is decided while some of its partitions still lack the marker."""
        metadata = self._shard.transactions.get(transactional_id)
        return metadata is not None and metadata.state.is_prepared

    # -- markers -------------------------------------------------------------------------------------

    def take_markers(self) -> list[TransactionMarkers]:
        """Return the markers of the transactions decided since the last call."""
        markers = self._shard.markers
        if markers:
            self._shard.markers = []
        return markers

    def on_markers_written(
        self, transactional_id: str, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Records:
        """Complete a transaction whose markers are all written, unless it is complete already."""
        metadata = self._shard.transactions.get(transactional_id)
        if (
            metadata is None
            or not metadata.state.is_prepared
            or (metadata.producer_id, metadata.producer_epoch) != (producer_id, producer_epoch)
        ):
            return []
        return self._shard.decide(metadata.complete(now_ms))

    # -- records -------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, now_ms: int) -> None:
        """Apply one record of the log."""
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        assert value is None or isinstance(value, TransactionLogValue)
        replay.replay_transaction(self._shard, key.transactional_id, value)

    def fail_append(self, records: Records, error: ErrorCode, now_ms: int) -> Records:
        """Undo the last call, whose records could not be written."""
        replay.fail_append(self._shard, records, now_ms)
        return []

    # -- loading and unloading -----------------------------------------------------------------------

    def on_loaded(self, now_ms: int) -> Records:
        """Start serving once the log has been replayed, and finish transactions that were already decided."""
        shard = self._shard
        shard.is_active = True
        for metadata in shard.transactions.values():
            shard.arm(metadata)
            if metadata.state.is_prepared:
                shard.send_markers(metadata)
        timeouts.schedule_expiration(shard, now_ms)
        return []

    def on_unloaded(self) -> None:
        """Discard the markers not taken yet, because another broker takes over and writes them."""
        self._shard.is_active = False
        self._shard.markers = []
        self._shard.producer_id_requests = []

    # -- timers --------------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return self._shard.timers.next_deadline_ms

    def shift_timers(self, by_ms: int) -> None:
        """Move all deadlines after the clock jumped by this much; transactions keep their time limits."""
        self._shard.timers.shift(by_ms)

    def on_timeout(self, now_ms: int) -> Records:
        """Fire one timer that is due, if there is one."""
        key = self._shard.timers.pop_due(now_ms)
        match key:
            case (TimerKind.TRANSACTION, str() as transactional_id):
                return timeouts.on_transaction_timeout(self._shard, transactional_id, now_ms)
            case (TimerKind.COMPLETION, str() as transactional_id):
                return self._complete(transactional_id, now_ms)
            case timeouts.EXPIRATION_KEY:
                return timeouts.on_expiration(self._shard, now_ms)
        return []

    def _complete(self, transactional_id: str, now_ms: int) -> Records:
        metadata = self._shard.transactions.get(transactional_id)
        if metadata is None or not metadata.state.is_prepared:
            return []
        return self._shard.decide(metadata.complete(now_ms))

    def take_producer_id_requests(self) -> list[TimedOut]:
        """Return the timed-out transactions that need a producer id; each asks again after a delay."""
        requests = self._shard.producer_id_requests
        if requests:
            self._shard.producer_id_requests = []
        return requests

    def abort_timed_out(self, timed_out: TimedOut, new_producer_id: int, now_ms: int) -> Records:
        """Abort a transaction from `take_producer_id_requests`, unless it has ended in the meantime."""
        return timeouts.abort_timed_out(self._shard, timed_out, new_producer_id, now_ms)

    # -- metrics -------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        return self._shard.counters

    def state_counts(self) -> Counter[TransactionState]:
        """The number of transactional ids in each state."""
        # Copied in one step, because another thread reads the metrics.
        return Counter(metadata.state for metadata in list(self._shard.transactions.values()))
