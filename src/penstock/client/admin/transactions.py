"""Administer transactions (KIP-664): list open ones, find their coordinator, end them.

Two things can block a reader of committed records. An *open* transaction has a coordinator and ends by itself
after its timeout; `fence` ends it now. A *hanging* one is open in a partition but unknown to every
coordinator: it stays open until `write_abort_marker` ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.coordinators import Coordinator, CoordinatorKind
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerError, UnsupportedByServer, error_from
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NO_FILTER_MS: Final = -1
MAX_PARTITIONS_PER_REQUEST: Final = 500
FENCING_TIMEOUT_MS: Final = 1
"""The transaction timeout of the producer that `fence` creates, which never begins a transaction."""

_DURATION_VERSION = 1
_PATTERN_VERSION = 2


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class TransactionDescription(NamedTuple):
    """The state of one transactional id.

    `start_timestamp_ms` is that of the last transaction, or -1 if there was none.
    """

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_timestamp_ms: int
    partitions: list[TopicPartition]


class ActiveProducer(NamedTuple):
    """A producer's state at a partition leader.

    `start_offset` is -1 if none of its transactions is open, `coordinator_epoch` if none has ended there yet.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int


def list_transactions(
    cluster: Cluster,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = NO_FILTER_MS,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """List the transactional ids of all coordinators.

    Raises ServerError, and UnsupportedByServer if a broker does not support a filter.
    """
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )

    def ask() -> list[TransactionListing]:
        nodes = cluster.refresh([]).brokers
        for node_id in nodes:
            _require_filters(cluster, node_id, request)
        answers = cluster.call_each(dict.fromkeys(nodes, request), ListTransactionsResponse)
        listings = []
        for node_id, response in answers.items():
            if response.error_code:
                raise error_from(response.error_code, f"listing transactions at broker {node_id}")
            if response.unknown_state_filters:
                names = ", ".join(response.unknown_state_filters)
                raise error_from(ErrorCode.INVALID_REQUEST, "state", f"there is no state {names}")
            listings += [
                TransactionListing(t.transactional_id, t.producer_id, t.transaction_state, node_id)
                for t in response.transaction_states
            ]
        return sorted(listings)

    return cluster.retry(ask)


def _require_filters(cluster: Cluster, node_id: int, request: ListTransactionsRequest) -> None:
    version = cluster.connection(node_id).version_of(ApiKey.LIST_TRANSACTIONS)
    if version < _DURATION_VERSION and request.duration_filter != NO_FILTER_MS:
        raise UnsupportedByServer(f"broker {node_id} cannot list transactions by their duration")
    if version < _PATTERN_VERSION and request.transactional_id_pattern is not None:
        raise UnsupportedByServer(f"broker {node_id} cannot list transactions by a pattern")


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """Describe a transaction as its coordinator sees it. Raises ServerError (TRANSACTIONAL_ID_NOT_FOUND)."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    coordinator = Coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id)

    def ask() -> TransactionDescription:
        response = coordinator.call(request, DescribeTransactionsResponse)
        [state] = response.transaction_states
        if state.error_code:
            raise error_from(state.error_code, f"transactional id '{transactional_id}'")
        return TransactionDescription(
            transactional_id,
            coordinator.node_id,
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            [TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions],
        )

    return coordinator.retry(ask)


def fence(cluster: Cluster, transactional_id: str) -> tuple[int, int]:
    """Fence the producer of a transactional id, which aborts its open transaction.

    Returns the producer id and epoch that fence it. Raises ServerError.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS
    )

    coordinator = Coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id)

    def ask() -> tuple[int, int]:
        response = coordinator.call(request, InitProducerIdResponse)
        if response.error_code:
            raise error_from(response.error_code, str(coordinator))
        return response.producer_id, response.producer_epoch

    return coordinator.retry(ask)


def active_producers(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[ActiveProducer]:
    """List the producers that the partitions' leaders remember. Raises UnknownPartition, ServerError."""
    missing = sorted(set(partitions))
    found: list[ActiveProducer] = []

    def ask() -> None:
        while missing:
            asked = missing[:MAX_PARTITIONS_PER_REQUEST]
            requests = {node_id: _describe_producers(led) for node_id, led in cluster.leaders(asked).items()}
            answers = cluster.call_each(requests, DescribeProducersResponse).values()
            found.extend([producer for response in answers for producer in _producers(cluster, response)])
            del missing[:MAX_PARTITIONS_PER_REQUEST]

    cluster.retry(ask)
    return found


def _describe_producers(partitions: list[TopicPartition]) -> DescribeProducersRequest:
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=numbers)
            for name, numbers in by_topic.items()
        ]
    )


def _producers(cluster: Cluster, response: DescribeProducersResponse) -> list[ActiveProducer]:
    producers = []
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                cluster.forget([tp.topic])
                raise error_from(partition.error_code, str(tp), partition.error_message)
            producers += [
                ActiveProducer(
                    tp,
                    p.producer_id,
                    p.producer_epoch,
                    p.last_sequence,
                    p.last_timestamp,
                    p.coordinator_epoch,
                    p.current_txn_start_offset,
                )
                for p in partition.active_producers
            ]
    return producers


def hanging_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], longer_than_ms: int, now_ms: int
) -> list[ActiveProducer]:
    """Find hanging transactions: open in these partitions, idle for this time, unknown to coordinators.

    Their producer id belongs to no transactional id, or to one whose transaction does not include the
    partition. A transaction that is open for less than the longest allowed timeout may still be in progress.
    """
    candidates = [
        producer
        for producer in active_producers(cluster, partitions)
        if producer.start_offset >= 0 and now_ms - producer.last_timestamp_ms > longer_than_ms
    ]
    if not candidates:
        return []
    listings = list_transactions(cluster, producer_ids={producer.producer_id for producer in candidates})
    coordinated = {
        (listing.producer_id, partition)
        for listing in listings
        for partition in _partitions_of(cluster, listing.transactional_id)
    }
    return [p for p in candidates if (p.producer_id, p.partition) not in coordinated]


def _partitions_of(cluster: Cluster, transactional_id: str) -> list[TopicPartition]:
    try:
        return describe_transaction(cluster, transactional_id).partitions
    except ServerError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # expired since it was listed
            return []
        raise


def write_abort_marker(cluster: Cluster, producer: ActiveProducer) -> None:
    """End the producer's transaction in this partition, regardless of any coordinator's state.

    A partition in which no transaction of the producer ever ended knows no coordinator epoch; 0 is below the
    epoch of every coordinator. Raises ServerError.
    """
    tp = producer.partition
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )

    def ask() -> None:
        [node_id] = cluster.leaders([tp])
        request = WriteTxnMarkersRequest(markers=[marker])
        response = cluster.connection(node_id).call(request, WriteTxnMarkersResponse)
        code = response.markers[0].topics[0].partitions[0].error_code
        if code:
            cluster.forget([tp.topic])
            raise error_from(code, f"abort marker for {tp}")

    cluster.retry(ask)
