"""A producer's side of transactions (KIP-98), one step per call: begin, commit offsets, end.

Both protocols are supported. If the cluster has finalized ``transaction.version`` 2 (KIP-890), brokers add
partitions and groups to the transaction by themselves; below it the client announces them first and uses the
older versions of the requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.coordinators import Coordinator, CoordinatorKind
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerError, TransactionLost, error_from
from penstock.client.groups.consumer_group import CommittedOffset
from penstock.client.producing.delivery import ProducerIdentity, Transaction
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

TRANSACTION_VERSION: Final = "transaction.version"
_VERSION_2: Final = 2
# The newest versions that a client of the first protocol may send.
_V1_TXN_OFFSET_COMMIT: Final = 4
_V1_END_TXN: Final = 4
_CLIENTS_ADD_PARTITIONS: Final = 3  # from version 4 on only brokers send it

_NO_MEMBER_GENERATION: Final = -1
_NO_LEADER_EPOCH: Final = -1
LOST: Final = frozenset(
    (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
    )
)
"""Errors after which this producer's transaction is over, whichever side ended it."""


class Transactor:
    """One transactional id. `begin` fences its previous producer; the other steps need `begin` first."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._transaction: Transaction | None = None

    @property
    def transaction(self) -> Transaction:
        """The transaction that a `Producer` needs to write in it."""
        if self._transaction is None:
            raise ValueError(f"transactional id '{self.transactional_id}': begin() was not called")
        return self._transaction

    def begin(self, *, resumed: bool = False) -> Transaction:
        """Fence every earlier producer of the id and abort its open transaction (InitProducerId).

        With ``resumed`` (KIP-360) this succeeds only if no other producer has begun since, and raises
        TransactionLost otherwise. Returns when the abort is done. Raises ServerError, for example
        INVALID_TRANSACTION_TIMEOUT.
        """
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        if resumed:
            identity = self.transaction.identity
            request.producer_id, request.producer_epoch = identity.producer_id, identity.producer_epoch

        def ask() -> Transaction:
            response = self._coordinator.call(request, InitProducerIdResponse)
            if response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise ServerError(
                    ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                    f"transactional id '{self.transactional_id}': 'transaction.timeout.ms' is "
                    f"{self.timeout_ms} ms, more than the brokers' 'transaction.max.timeout.ms'",
                )
            if response.error_code:
                raise self._error(response.error_code)
            identity = ProducerIdentity(response.producer_id, response.producer_epoch)
            is_version_2 = self._coordinator.finalized(TRANSACTION_VERSION) >= _VERSION_2
            return Transaction(self.transactional_id, identity, is_version_2)

        self._transaction = self._coordinator.retry(ask)
        return self._transaction

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Announce the partitions to write; does nothing in version 2.

        Raises TransactionLost, ServerError.
        """
        transaction = self.transaction
        if transaction.is_version_2 or not partitions:
            return
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=transaction.identity.producer_id,
            v3_and_below_producer_epoch=transaction.identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )

        def ask() -> None:
            response = self._coordinator.call(
                request, AddPartitionsToTxnResponse, newest=_CLIENTS_ADD_PARTITIONS
            )
            for topic in response.results_by_topic_v3_and_below:
                for p in topic.results_by_partition:
                    if p.partition_error_code:
                        raise self._error(p.partition_error_code, f", {topic.name}-{p.partition_index}")

        self._coordinator.retry(ask)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Add a group's offsets to the transaction; they take effect when it is committed.

        They are committed without a member id. Raises TransactionLost, ServerError.
        """
        transaction = self.transaction
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Coordinator(self._cluster, CoordinatorKind.GROUP, group_id)
        if not transaction.is_version_2:
            self._add_group(group_id)
        request = self._offsets_request(group_id, offsets)

        def ask() -> None:
            newest = None if transaction.is_version_2 else _V1_TXN_OFFSET_COMMIT
            response = group.call(request, TxnOffsetCommitResponse, newest=newest)
            for topic in response.topics:
                for p in topic.partitions:
                    if p.error_code:
                        where = f", offset of {topic.name}-{p.partition_index} for {group}"
                        raise self._error(p.error_code, where)

        group.retry(ask)

    def _add_group(self, group_id: str) -> None:
        identity = self.transaction.identity
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group_id,
        )

        def ask() -> None:
            response = self._coordinator.call(request, AddOffsetsToTxnResponse)
            if response.error_code:
                raise self._error(response.error_code, f", group '{group_id}'")

        self._coordinator.retry(ask)

    def _offsets_request(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> TxnOffsetCommitRequest:
        identity = self.transaction.identity
        topics: dict[str, list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]] = {}
        for tp, committed in offsets.items():
            topics.setdefault(tp.topic, []).append(
                TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=_NO_LEADER_EPOCH,
                    committed_metadata=committed.metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            generation_id=_NO_MEMBER_GENERATION,
            member_id="",
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction; retried until the coordinator has answered.

        Raises TransactionLost if it already ended the other way. Any other error leaves the outcome unknown
        until `begin` has returned again. After a success the identity is that of the next transaction.
        """
        transaction = self.transaction
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=transaction.identity.producer_id,
            producer_epoch=transaction.identity.producer_epoch,
            committed=commit,
        )

        def ask() -> None:
            newest = None if transaction.is_version_2 else _V1_END_TXN
            response = self._coordinator.call(request, EndTxnResponse, newest=newest)
            if response.error_code:
                raise self._error(response.error_code)
            # Version 2: every transaction has its own epoch.
            if response.producer_id >= 0:
                identity = ProducerIdentity(response.producer_id, response.producer_epoch)
                self._transaction = Transaction(self.transactional_id, identity, transaction.is_version_2)

        self._coordinator.retry(ask)

    def _error(self, code: int, where: str = "") -> ServerError:
        error = error_from(code, f"transactional id '{self.transactional_id}'{where}")
        return TransactionLost(error.code, str(error)) if error.code in LOST else error
