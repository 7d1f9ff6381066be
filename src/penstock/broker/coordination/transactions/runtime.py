"""The runtime of this node's transaction coordinators: it connects them to requests, logs and the clock."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.coordination.broker_peers import BrokerPeers
from penstock.broker.coordination.replica_log import ReplicaLog
from penstock.broker.coordination.runtime import CoordinatorRuntime
from penstock.broker.coordination.transactions import loader as transaction_loader
from penstock.broker.coordination.transactions.marker_sender import MarkerSender
from penstock.broker.coordination.transactions.partition import TransactionPartition
from penstock.broker.coordination.transactions.remote_coordinators import Question, RemoteCoordinators
from penstock.broker.network.answers import Answer
from penstock.coordinators.records import Records
from penstock.coordinators.transaction.admin import TransactionFilter
from penstock.coordinators.transaction.config import TransactionCoordinatorConfig
from penstock.coordinators.transaction.coordinator import TransactionCoordinator
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.coordinators.transaction.results import NeedsProducerId, TimedOut
from penstock.coordinators.transaction.shard import Counters
from penstock.coordinators.transaction.states import TransactionState
from penstock.metadata.controller.features import TRANSACTION_VERSION
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.host import TransactionHost
    from penstock.broker.partitions.replica import Replica
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image.image import MetadataDelta
    from penstock.storage.partition.log import Log

__all__ = [
    "TRANSACTION_STATE_TOPIC",
    "TV0",
    "TV2",
    "Codes",
    "TransactionCoordinatorRuntime",
    "are_concurrent",
    "fenced_error",
]

log = logging.getLogger(__name__)

TRANSACTION_STATE_TOPIC = "__transaction_state"

TV0 = 0
"""The version of clients that themselves add each partition to the transaction."""
TV2 = 2
"""KIP-890's version: brokers add the partitions, and each transaction has its own producer epoch."""

Codes = dict[TopicPartition, ErrorCode]
ENDING_PATIENCE_S = 0.1
"""The limit on a request's wait for its id's last transaction; then it fails as CONCURRENT_TRANSACTIONS."""

R = TypeVar("R")
Decide = Callable[[TransactionPartition, int | None], tuple[Records, R | NeedsProducerId]]
"""A decision of the coordinator, made with a new producer id if the first attempt needed one."""


class TransactionCoordinatorRuntime(CoordinatorRuntime[TransactionPartition]):
    """The transaction coordinators of one node, which answer requests.

    Unless stated otherwise, methods raise KafkaError if this node cannot serve the transactional id, or
    cannot append its decision. They answer at once, unless they need a new producer id or other replicas must
    get the records first.
    """

    TOPIC = TRANSACTION_STATE_TOPIC
    PARTITION_COUNT_CONFIG = "transaction.state.log.num.partitions"
    REPLICATION_FACTOR_CONFIG = "transaction.state.log.replication.factor"
    WRITE_TIMEOUT_CONFIG = "request.timeout.ms"

    def __init__(self, host: TransactionHost) -> None:
        super().__init__(host)
        self._config = coordinator_config(host.config)
        self._epochs: dict[int, int] = {}
        """The leader epoch in which each partition was loaded; it is the epoch of its coordinator."""
        self._producer_ids = host.producer_ids
        self.markers = MarkerSender(host)
        self._others = RemoteCoordinators(
            BrokerPeers.of_node(host, "add-partitions-to-txn"), host.config.get_int("request.timeout.ms")
        )

    # -- requests ------------------------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerIdRequest) -> Answer[InitProducerIdResponse]:
        """Initialize the producer id of a transactional id."""
        assert request.transactional_id is not None
        return self._decide(
            request.transactional_id,
            lambda owner, producer_id: owner.coordinator.handle_init_producer_id(
                request, owner.now_ms(), producer_id
            ),
        )

    def end_txn(self, request: EndTxnRequest, client_version: int) -> Answer[EndTxnResponse]:
        """Commit or abort a transaction; the answer confirms the decision, before all markers are written.

        `client_version` is TV0 or TV2.
        """
        return self._decide(
            request.transactional_id,
            lambda owner, producer_id: owner.coordinator.handle_end_txn(
                request, client_version, owner.now_ms(), producer_id
            ),
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
    ) -> Answer[Codes]:
        """Add or verify partitions for their leader, which is about to append to them (KIP-890).

        Raises nothing. If the coordinator is on another broker, the question is sent there. With
        `penstock.acks.fsync` the answer is durable: else a power cut could leave a batch in a partition while
        the coordinator has lost the transaction that the batch began.
        """
        state_partition = self._host.image.topics.partition(self.TOPIC, self.partition_of(transactional_id))
        if state_partition is not None and state_partition.leader != self._host.node_id:
            question = Question(transactional_id, producer_id, producer_epoch, partitions, verify_only)
            if state_partition.leader < 0:
                return Answer.of(question.all_answered(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return Answer.of_future(self._others.ask(state_partition.leader, question))
        codes = self.add_or_verify_partitions(
            transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only
        )
        group_commit = self._host.group_commit
        if not group_commit.acks_fsync or group_commit.is_idle:
            return codes
        return Answer.working(self._when_durable(codes))

    async def _when_durable(self, answer: Answer[Codes]) -> Codes:
        codes = await answer
        durable: asyncio.Future[BaseException | None] = self._host.loop.create_future()
        self._host.group_commit.when_durable(
            lambda error: None if durable.cancelled() else durable.set_result(error)
        )
        if await durable is not None:
            return dict.fromkeys(codes, ErrorCode.NOT_COORDINATOR)
        return codes

    def add_or_verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool = False,
        client_version: int = TV2,
    ) -> Answer[Codes]:
        """Add partitions to the transaction, all or none, or verify that it has them. Raises nothing."""

        def add_or_verify(owner: TransactionPartition) -> Answer[Codes]:
            if verify_only:
                return Answer.of(
                    owner.coordinator.handle_verify_partitions(
                        transactional_id, producer_id, producer_epoch, partitions
                    )
                )
            records, code = owner.coordinator.handle_add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version, owner.now_ms()
            )
            codes = dict.fromkeys(partitions, code)
            return self._answer(owner.settle(records), codes) if records else Answer.of(codes)

        return self._in_line(transactional_id, add_or_verify).recover(
            lambda error: dict.fromkeys(partitions, error.code)
        )

    def ask_when_ended(
        self, transactional_id: str, ask: Callable[[], Answer[R]], is_concurrent: Callable[[R], bool]
    ) -> Answer[R]:
        """Return the answer of `ask`; if the last transaction was in the way, ask again once it has ended.

        A client gets the answer to EndTxn before all partitions have their markers. It would retry its next
        request, but librdkafka does so only after half a second. The wait is limited to `ENDING_PATIENCE_S`.
        """
        answer = ask()
        if answer.is_done and not is_concurrent(answer.value):
            return answer
        return Answer.working(self._ask_again(transactional_id, ask, is_concurrent, answer))

    async def _ask_again(
        self,
        transactional_id: str,
        ask: Callable[[], Answer[R]],
        is_concurrent: Callable[[R], bool],
        answer: Answer[R],
    ) -> R:
        deadline_s = self._host.loop.time() + ENDING_PATIENCE_S
        while True:
            known = await answer
            remaining_s = deadline_s - self._host.loop.time()
            if not is_concurrent(known) or remaining_s <= 0:
                return known
            try:
                completion = self._owner(transactional_id).completion_of(transactional_id)
            except KafkaError:
                return known
            if completion is None:
                await asyncio.sleep(0)  # the transaction has ended meanwhile
            else:
                await asyncio.wait((completion,), timeout=remaining_s)
                if not completion.done():
                    return known
            answer = ask()

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
        """Describe a transaction. Raises nothing: an error code is in the returned state."""
        try:
            return self._owner(transactional_id).coordinator.handle_describe_transaction(transactional_id)
        except KafkaError as error:
            return DescribeTransactionsResponse.TransactionState(
                error_code=error.code, transactional_id=transactional_id
            )

    async def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """List the matching transactions of the partitions that this node leads.

        A worker does that, as there may be many transactions, and patterns that take long to match. Raises
        KafkaError COORDINATOR_LOAD_IN_PROGRESS while a partition is loading.
        """
        if self._loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        coordinators = [owner.coordinator for owner in self._loaded.values()]
        return await self._host.decode_in_worker(_list, coordinators, request, self._host.clock_ms())

    def _decide(self, transactional_id: str, decide: Decide[R]) -> Answer[R]:
        def decide_now(owner: TransactionPartition) -> Answer[R]:
            records, response = decide(owner, None)
            if isinstance(response, NeedsProducerId):
                return Answer.working(self._decide_with_producer_id(transactional_id, decide))
            return self._answer(owner.settle(records), response)

        return self._in_line(transactional_id, decide_now)

    async def _decide_with_producer_id(self, transactional_id: str, decide: Decide[R]) -> R:
        producer_id = await self._producer_ids.next()

        def decide_now(owner: TransactionPartition) -> Answer[R]:
            records, response = decide(owner, producer_id)
            assert not isinstance(response, NeedsProducerId), "a producer id was passed"
            return self._answer(owner.settle(records), response)

        return await self._in_line(transactional_id, decide_now)  # the coordinator may have moved meanwhile

    def _owner(self, key: str) -> TransactionPartition:
        """The coordinator for a key, if this node certainly leads.

        A repeated request is answered from memory, without an append that would confirm the leadership.
        """
        return self._certain_owner(key)

    # -- life cycle ----------------------------------------------------------------------------------

    def on_image_change(self, delta: MetadataDelta) -> None:
        """Follow changes of leaders and of `transaction.version`, after the replicas have followed them."""
        super().on_image_change(delta)
        for owner in self._loaded.values():
            owner.coordinator.set_transaction_version(self.transaction_version)

    def close(self) -> None:
        super().close()
        self.markers.close()
        self._others.close()

    @property
    def transaction_version(self) -> int:
        """The finalized level of `transaction.version`; 0 in a cluster without this feature."""
        return self._host.image.features.get(TRANSACTION_VERSION, 0)

    def _new_owner(self, partition: int, replica: Replica) -> TransactionPartition:
        self._epochs[partition] = replica.leader_epoch
        coordinator = TransactionCoordinator(
            self._config,
            coordinator_epoch=replica.leader_epoch,
            transaction_version=self.transaction_version,
        )
        return TransactionPartition(
            coordinator,
            # as with acks=all, a decision must be on enough replicas
            ReplicaLog(self._host.replicas, replica, needs_in_sync_replicas=True),
            self._host.clock_ms,
            self.markers,
            self._abort_with_producer_id,
            write_timeout_ms=self._write_timeout_ms,
            lost=partial(self._lost, partition),
        )

    def _replay(self, owner: TransactionPartition, partition_log: Log, end_offset: int, now_ms: int) -> None:
        transaction_loader.load(partition_log, end_offset, owner.coordinator, now_ms)

    def _follow_leadership(self, partition: int) -> None:
        """Reload a partition that this node leads in a new epoch: the old epoch's markers may be refused."""
        replica = self._host.replicas.get(self.TOPIC, partition)
        if replica is not None and self._epochs.get(partition, replica.leader_epoch) != replica.leader_epoch:
            self._resign([partition])
        super()._follow_leadership(partition)

    # -- transactions that time out ------------------------------------------------------------------

    def _abort_with_producer_id(self, owner: TransactionPartition, timed_out: TimedOut) -> None:
        self._start(self._abort(owner, timed_out))

    async def _abort(self, owner: TransactionPartition, timed_out: TimedOut) -> None:
        try:
            producer_id = await self._producer_ids.next()
        except KafkaError as error:
            log.error(
                "cannot abort a transaction transactional_id=%s error=%s", timed_out.transactional_id, error
            )
            return  # the coordinator will request an id again
        if owner in self._loaded.values():
            owner.abort(timed_out, producer_id)

    # -- metrics -------------------------------------------------------------------------------------

    def state_counts(self) -> Counter[TransactionState]:
        """Transactional ids by state."""
        counts: Counter[TransactionState] = Counter()
        for owner in list(self._loaded.values()):
            counts.update(owner.coordinator.state_counts())
        return counts

    def counters(self) -> Counters:
        """The sum of the counters of all partitions since they were loaded."""
        total = Counters()
        for owner in list(self._loaded.values()):
            each = owner.coordinator.counters
            total.committed += each.committed
            total.aborted += each.aborted
            total.timed_out += each.timed_out
            total.expired += each.expired
        return total


def _list(
    coordinators: Collection[TransactionCoordinator], request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """List the matching transactions. Raises KafkaError INVALID_REGULAR_EXPRESSION."""
    wanted = TransactionFilter.of(request)
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states,
        transaction_states=[
            transaction
            for coordinator in coordinators
            for transaction in coordinator.handle_list_transactions(wanted, now_ms)
        ],
    )


def coordinator_config(config: BrokerConfig) -> TransactionCoordinatorConfig:
    """Return the coordinator's part of the node's configuration."""
    return TransactionCoordinatorConfig(
        transaction_max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
        transaction_abort_timed_out_transaction_cleanup_interval_ms=config.get_int(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=config.get_int(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
        transaction_two_phase_commit_enable=config.get_bool("transaction.two.phase.commit.enable"),
    )


def are_concurrent(codes: Codes) -> bool:
    """Whether the codes say that the last transaction has not ended yet."""
    return ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()


def fenced_error(error: int, *, knows_fenced: bool) -> int:
    """Replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH for clients older than Apache Kafka 2.7."""
    if error == ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
