"""The transaction coordinators of this node: how requests, logs and time reach them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.broker import transaction_loader
from penstock.broker.broker_peers import BrokerPeers
from penstock.broker.coordinator_log import ReplicaLog
from penstock.broker.coordinator_runtime import CoordinatorRuntime
from penstock.broker.remote_coordinators import Question, RemoteCoordinators
from penstock.broker.transaction_markers import MarkerSender
from penstock.broker.transaction_partition import TransactionPartition
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
    from penstock.broker.node import Broker
    from penstock.broker.replica import Replica
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image.image import MetadataDelta
    from penstock.storage.log import Log

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
"""The client's part of the first protocol, which tells the coordinator of every partition."""
TV2 = 2
"""Of KIP-890's, in which brokers do that, and every transaction has an epoch of its own."""

Codes = dict[TopicPartition, ErrorCode]
ENDING_PATIENCE_S = 0.1
"""How long a request waits for the end of its id's last transaction; then it is CONCURRENT_TRANSACTIONS."""

R = TypeVar("R")
Decide = Callable[[TransactionPartition, int | None], tuple[Records, R | NeedsProducerId]]
"""A decision of the coordinator, with a new producer id if it has asked for one."""


class TransactionCoordinatorRuntime(CoordinatorRuntime[TransactionPartition]):
    """Requests in, answers out.

    Unless said otherwise methods raise KafkaError if this node cannot serve the transactional id, or cannot
    write down what it has decided. Answers come at once but for those that take a new producer id, or whose
    records other replicas have to get first.
    """

    TOPIC = TRANSACTION_STATE_TOPIC
    PARTITION_COUNT_CONFIG = "transaction.state.log.num.partitions"
    WRITE_TIMEOUT_CONFIG = "request.timeout.ms"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._config = coordinator_config(broker.config)
        self._epochs: dict[int, int] = {}
        """Leader epochs that the partitions of this node were taken over in: its coordinators' own."""
        self.markers = MarkerSender(broker)
        self._others = RemoteCoordinators(
            BrokerPeers.of_node(broker, "add-partitions-to-txn"), broker.config.get_int("request.timeout.ms")
        )

    # -- requests ------------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerIdRequest
    ) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
        """For a transactional id."""
        assert request.transactional_id is not None
        return self._decide(
            request.transactional_id,
            lambda owner, producer_id: owner.coordinator.handle_init_producer_id(
                request, owner.now_ms(), producer_id
            ),
        )

    def end_txn(
        self, request: EndTxnRequest, client_version: int
    ) -> EndTxnResponse | Awaitable[EndTxnResponse]:
        """Decided when it is answered; `client_version` is TV0 or TV2."""
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
    ) -> Codes | Awaitable[Codes]:
        """For the leader of these partitions, who is about to append to them (KIP-890). Raises nothing.

        The coordinator may be on another broker; then it is asked there. Where power cuts count the answer is
        durable: else one could leave a batch in a partition, and no memory of the transaction that it began.
        """
        state_partition = self._broker.image.topics.partition(self.TOPIC, self.partition_of(transactional_id))
        if state_partition is not None and state_partition.leader != self._broker.node_id:
            question = Question(transactional_id, producer_id, producer_epoch, partitions, verify_only)
            if state_partition.leader < 0:
                return question.all_answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return self._others.ask(state_partition.leader, question)
        codes = self.add_or_verify_partitions(
            transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only
        )
        group_commit = self._broker.group_commit
        if not group_commit.acks_fsync or group_commit.is_idle:
            return codes
        return self._when_durable(codes)

    async def _when_durable(self, answer: Codes | Awaitable[Codes]) -> Codes:
        codes = await answer if isinstance(answer, Awaitable) else answer
        durable: asyncio.Future[BaseException | None] = self._broker.loop.create_future()
        self._broker.group_commit.when_durable(
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
    ) -> Codes | Awaitable[Codes]:
        """Take the partitions into the transaction, all or none; or see if they are in it. Raises nothing."""

        def add_or_verify(owner: TransactionPartition) -> Codes | Awaitable[Codes]:
            if verify_only:
                return owner.coordinator.handle_verify_partitions(
                    transactional_id, producer_id, producer_epoch, partitions
                )
            records, code = owner.coordinator.handle_add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version, owner.now_ms()
            )
            codes = dict.fromkeys(partitions, code)
            return self._answer(owner.settle(records), codes) if records else codes

        try:
            answer = self._in_line(transactional_id, add_or_verify)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return _codes_of(answer, partitions) if isinstance(answer, Awaitable) else answer

    def ask_when_ended(
        self, transactional_id: str, ask: Callable[[], R | Awaitable[R]], is_concurrent: Callable[[R], bool]
    ) -> R | Awaitable[R]:
        """What `ask` answers, asked again once the last transaction has ended if it was in the way.

        For clients that have been told of its end before all of its partitions were. They would come again by
        themselves, but librdkafka only after half a second. No longer than `ENDING_PATIENCE_S`.
        """
        answer = ask()
        if isinstance(answer, Awaitable) or is_concurrent(answer):
            return self._ask_again(transactional_id, ask, is_concurrent, answer)
        return answer

    async def _ask_again(
        self,
        transactional_id: str,
        ask: Callable[[], R | Awaitable[R]],
        is_concurrent: Callable[[R], bool],
        answer: R | Awaitable[R],
    ) -> R:
        deadline_s = self._broker.loop.time() + ENDING_PATIENCE_S
        while True:
            known: R = await answer if isinstance(answer, Awaitable) else answer
            remaining_s = deadline_s - self._broker.loop.time()
            if not is_concurrent(known) or remaining_s <= 0:
                return known
            try:
                completion = self._owner(transactional_id).completion_of(transactional_id)
            except KafkaError:
                return known
            if completion is None:
                await asyncio.sleep(0)  # it has ended meanwhile
            else:
                await asyncio.wait((completion,), timeout=remaining_s)
                if not completion.done():
                    return known
            answer = ask()

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
        """Raises nothing: why it can't be told stands in the state."""
        try:
            return self._owner(transactional_id).coordinator.handle_describe_transaction(transactional_id)
        except KafkaError as error:
            return DescribeTransactionsResponse.TransactionState(
                error_code=error.code, transactional_id=transactional_id
            )

    async def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """Those of the partitions this node leads; it cannot be told while some are loading.

        A worker looks for them: there may be many, and patterns that take long to match.
        """
        if self._loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        coordinators = [owner.coordinator for owner in self._loaded.values()]
        return await self._broker.decode_in_worker(_list, coordinators, request, self._broker.clock_ms())

    def _decide(self, transactional_id: str, decide: Decide[R]) -> R | Awaitable[R]:
        def decide_now(owner: TransactionPartition) -> R | Awaitable[R]:
            records, response = decide(owner, None)
            if isinstance(response, NeedsProducerId):
                return self._decide_with_producer_id(transactional_id, decide)
            return self._answer(owner.settle(records), response)

        return self._in_line(transactional_id, decide_now)

    async def _decide_with_producer_id(self, transactional_id: str, decide: Decide[R]) -> R:
        producer_id = await self._broker.producer_ids.next()

        def decide_now(owner: TransactionPartition) -> R | Awaitable[R]:
            records, response = decide(owner, producer_id)
            assert not isinstance(response, NeedsProducerId), "it has got one"
            return self._answer(owner.settle(records), response)

        answer = self._in_line(transactional_id, decide_now)  # it may have moved meanwhile
        return await answer if isinstance(answer, Awaitable) else answer

    def _owner(self, key: str) -> TransactionPartition:
        """A request that is repeated is answered from memory."""
        return self._certain_owner(key)

    # -- life ----------------------------------------------------------------------------------------

    def on_image_change(self, delta: MetadataDelta) -> None:
        """Follow leadership and the cluster's feature; to be called after the replicas have followed."""
        super().on_image_change(delta)
        for owner in self._loaded.values():
            owner.coordinator.set_transaction_version(self.transaction_version)

    def close(self) -> None:
        super().close()
        self.markers.close()
        self._others.close()

    @property
    def transaction_version(self) -> int:
        """The finalized level of `transaction.version`; 0 in a cluster that doesn't know it."""
        return self._broker.image.features.get(TRANSACTION_VERSION, 0)

    def _new_owner(self, partition: int, replica: Replica) -> TransactionPartition:
        self._epochs[partition] = replica.leader_epoch
        coordinator = TransactionCoordinator(
            self._config,
            coordinator_epoch=replica.leader_epoch,
            transaction_version=self.transaction_version,
        )
        return TransactionPartition(
            coordinator,
            # as with acks=all: a decision must be on enough replicas
            ReplicaLog(self._broker.replicas, replica, needs_in_sync_replicas=True),
            self._broker.clock_ms,
            self.markers,
            self._abort_with_producer_id,
            write_timeout_ms=self._write_timeout_ms,
            lost=partial(self._lost, partition),
        )

    def _replay(self, owner: TransactionPartition, partition_log: Log, end_offset: int, now_ms: int) -> None:
        transaction_loader.load(partition_log, end_offset, owner.coordinator, now_ms)

    def _follow_leadership(self, partition: int) -> None:
        """A partition led on in a new epoch is taken over anew: markers of the old one may be refused."""
        replica = self._broker.replicas.get(self.TOPIC, partition)
        if replica is not None and self._epochs.get(partition, replica.leader_epoch) != replica.leader_epoch:
            self._resign([partition])
        super()._follow_leadership(partition)

    # -- transactions that take too long -------------------------------------------------------------

    def _abort_with_producer_id(self, owner: TransactionPartition, timed_out: TimedOut) -> None:
        self._start(self._abort(owner, timed_out))

    async def _abort(self, owner: TransactionPartition, timed_out: TimedOut) -> None:
        try:
            producer_id = await self._broker.producer_ids.next()
        except KafkaError as error:
            log.error("cannot abort transactional_id=%s error=%s", timed_out.transactional_id, error)
            return  # the coordinator asks again
        if owner in self._loaded.values():
            owner.abort(timed_out, producer_id)

    # -- figures -------------------------------------------------------------------------------------

    def state_counts(self) -> Counter[TransactionState]:
        """Transactional ids by state."""
        counts: Counter[TransactionState] = Counter()
        for owner in list(self._loaded.values()):
            counts.update(owner.coordinator.state_counts())
        return counts

    def counters(self) -> Counters:
        """What all partitions have done since they were loaded."""
        total = Counters()
        for owner in list(self._loaded.values()):
            each = owner.coordinator.counters
            total.committed += each.committed
            total.aborted += each.aborted
            total.timed_out += each.timed_out
            total.expired += each.expired
        return total


async def _codes_of(answer: Awaitable[Codes], partitions: Collection[TopicPartition]) -> Codes:
    try:
        return await answer
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)


def _list(
    coordinators: Collection[TransactionCoordinator], request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """Raises INVALID_REGULAR_EXPRESSION."""
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
    """What the coordinator needs of the node's configuration."""
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
    """Whether the last transaction is in the way."""
    return ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()


def fenced_error(error: int, *, knows_fenced: bool) -> int:
    """Clients from before Apache Kafka 2.7 are told INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    if error == ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
