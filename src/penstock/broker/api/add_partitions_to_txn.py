"""AddPartitionsToTxn (24): partitions that a transaction is about to be written to.

Versions 0 to 5. Up to version 3 clients ask; from version 4 on brokers do, for several transactions at once,
and may only want to know whether the partitions have been added (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.transaction_coordinator import TV0, TV2, fenced_error
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
) -> AddPartitionsToTxnResponse:
    version = context.api_version
    if version < SEVERAL_TRANSACTIONS_VERSION:
        transaction = Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_add(broker, transaction, version))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_add(broker, transaction, version),
            )
            for transaction in request.transactions
        ]
    )


def _add(broker: Broker, transaction: Transaction, version: int) -> list[TopicResult]:
    """One transaction's partitions: if one of them does not exist none is added."""
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    missing = {place for place in partitions if broker.image.topics.partition(*place) is None}
    if missing:
        codes = {
            place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if place in missing
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for place in partitions
        }
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
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(
                    partition_index=index,
                    partition_error_code=fenced_error(codes[topic.name, index], knows_fenced=knows_fenced),
                )
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]
