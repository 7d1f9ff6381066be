"""AddPartitionsToTxn (24): add partitions to a transaction before it writes to them.

Versions 0 to 5. Clients send versions up to 3. Brokers send versions 4 and up, for several transactions at
once, and may only verify that the partitions have been added (KIP-890). Unlike in Kafka, a client's request
waits up to 100 ms for the end of its last transaction before it is answered CONCURRENT_TRANSACTIONS.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: the error PRODUCER_FENCED (KIP-588)
- 3: flexible encoding (KIP-482)
- 4: several transactions at once, `verify_only`, an error code for the request (KIP-890)
- 5: the error TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.coordination.transactions.runtime import TV0, TV2, Codes, are_concurrent, fenced_error
from penstock.broker.network.answers import Answer, all_of
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage

FENCED_ERROR_VERSION = 2
SEVERAL_TRANSACTIONS_VERSION = 4

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
Asked = tuple[Transaction, Answer[Codes]]
"""A transaction and its coordinator's answer: an error code for each partition."""


class Parts(Protocol):
    """The parts of the node that this API uses."""

    image: MetadataImage
    transactions: TransactionCoordinatorRuntime


def handle(
    parts: Parts, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Answer[AddPartitionsToTxnResponse]:
    version = context.api_version
    return in_turns(_ask(parts, request, version)).and_then(lambda asked: _answer_when_known(asked, version))


def _answer_when_known(asked: list[Asked], version: int) -> Answer[AddPartitionsToTxnResponse]:
    transactions = [transaction for transaction, _ in asked]
    return all_of([codes for _, codes in asked]).and_then(
        lambda known: in_turns(_answer(zip(transactions, known, strict=True), version))
    )


def _ask(parts: Parts, request: AddPartitionsToTxnRequest, version: int) -> Steps[list[Asked]]:
    if version < SEVERAL_TRANSACTIONS_VERSION:
        transactions = [
            Transaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    else:
        transactions = request.transactions
    asked: list[Asked] = []
    for transaction in transactions:
        codes = yield from _add(parts, transaction, version)
        asked.append((transaction, codes))
    return asked


def _add(parts: Parts, transaction: Transaction, version: int) -> Steps[Answer[Codes]]:
    """Add one transaction's partitions; if one of them does not exist, none is added."""
    yield
    partitions = set()
    missing = set()
    for topic in transaction.topics:
        for index in topic.partitions:
            yield
            partitions.add(place := (topic.name, index))
            if parts.image.topics.partition(*place) is None:
                missing.add(place)
    if missing:
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        codes.update(dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return Answer.of(codes)
    ask = partial(
        parts.transactions.add_or_verify_partitions,
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        verify_only=transaction.verify_only,
        client_version=TV2 if version >= SEVERAL_TRANSACTIONS_VERSION else TV0,
    )
    if version >= SEVERAL_TRANSACTIONS_VERSION:
        return ask()  # the asking broker handles several transactions, and retries by itself
    return parts.transactions.ask_when_ended(transaction.transactional_id, ask, are_concurrent)


def _answer(known: Iterable[tuple[Transaction, Codes]], version: int) -> Steps[AddPartitionsToTxnResponse]:
    results = []
    for transaction, codes in known:
        topics = yield from _topics(transaction, codes, version)
        if version < SEVERAL_TRANSACTIONS_VERSION:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
        results.append(
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=topics
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _topics(transaction: Transaction, codes: Codes, version: int) -> Steps[list[TopicResult]]:
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


API = Api(AddPartitionsToTxnRequest).on_broker(lambda node: node, handle)
