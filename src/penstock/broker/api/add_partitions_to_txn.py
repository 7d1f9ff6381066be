"""AddPartitionsToTxn (24): partitions that a transaction is about to be written to.

Versions 0 to 5. Up to version 3 clients ask; from version 4 on brokers do, for several transactions at once,
and may only want to know whether the partitions have been added (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.broker.transaction_coordinator import TV0, TV2, fenced_error
from penstock.broker.turns import Steps, in_turns
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.ADD_PARTITIONS_TO_TXN

FENCED_ERROR_VERSION = 2
SEVERAL_TRANSACTIONS_VERSION = 4

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    return in_turns(_answer(broker, request, context.api_version))


def _answer(
    broker: Broker, request: AddPartitionsToTxnRequest, version: int
) -> Steps[AddPartitionsToTxnResponse]:
    if version < SEVERAL_TRANSACTIONS_VERSION:
        transaction = Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        topics = yield from _add(broker, transaction, version)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    results = []
    for transaction in request.transactions:
        topics = yield from _add(broker, transaction, version)
        results.append(
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=topics
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _add(broker: Broker, transaction: Transaction, version: int) -> Steps[list[TopicResult]]:
    """One transaction's partitions: if one of them does not exist none is added."""
    yield
    partitions = set()
    missing = set()
    for topic in transaction.topics:
        for index in topic.partitions:
            yield
            partitions.add(place := (topic.name, index))
            if broker.image.topics.partition(*place) is None:
                missing.add(place)
    if missing:
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        codes.update(dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    else:
        codes = broker.transactions.add_or_verify_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            verify_only=transaction.verify_only,
            client_version=TV2 if version >= SEVERAL_TRANSACTIONS_VERSION else TV0,
        )
    knows_fenced = version >= FENCED_ERROR_VERSION
    topics = []
    for topic in transaction.topics:
        results = []
        for index in topic.partitions:
            yield
            error = fenced_error(codes[topic.name, index], knows_fenced=knows_fenced)
            results.append(PartitionResult(partition_index=index, partition_error_code=error))
        topics.append(TopicResult(name=topic.name, results_by_partition=results))
    return topics
