"""AddPartitionsToTxn (24): add partitions to a transaction before it writes to them.

Versions 0 to 5. Clients send versions up to 3. Brokers send versions 4 and up, for several transactions at
once, and may only verify that the partitions have been added (KIP-890). Unlike in Kafka, a client's request
waits up to 100 ms for the end of its last transaction before it is answered CONCURRENT_TRANSACTIONS. Clients
need WRITE on the transactional id and on each topic, and may not name internal topics; brokers need
CLUSTER_ACTION.

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
from penstock.metadata.controller.topic_names import INTERNAL_TOPICS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage
    from penstock.security.permissions import Permissions

FENCED_ERROR_VERSION = 2
SEVERAL_TRANSACTIONS_VERSION = 4

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
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
    if version >= SEVERAL_TRANSACTIONS_VERSION:
        context.permissions.require(Operation.CLUSTER_ACTION)
    return in_turns(_ask(parts, request, context)).and_then(lambda asked: _answer_when_known(asked, version))


def _answer_when_known(asked: list[Asked], version: int) -> Answer[AddPartitionsToTxnResponse]:
    transactions = [transaction for transaction, _ in asked]
    return all_of([codes for _, codes in asked]).and_then(
        lambda known: in_turns(_answer(zip(transactions, known, strict=True), version))
    )


def _ask(parts: Parts, request: AddPartitionsToTxnRequest, context: RequestContext) -> Steps[list[Asked]]:
    if context.api_version < SEVERAL_TRANSACTIONS_VERSION:
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
        errors = yield from _check(parts, transaction, context)
        asked.append((transaction, _add(parts, transaction, errors, context.api_version)))
    return asked


def _check(parts: Parts, transaction: Transaction, context: RequestContext) -> Steps[Codes]:
    """The error of each partition: NONE if the client may add it and it exists."""
    permissions = context.permissions
    is_client = context.api_version < SEVERAL_TRANSACTIONS_VERSION
    error_of_all = ErrorCode.NONE
    if is_client and not permissions.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        error_of_all = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    errors: Codes = {}
    yield
    for topic in transaction.topics:
        error = error_of_all
        if is_client and not error and not _may_write(permissions, topic):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for index in topic.partitions:
            yield
            place = (topic.name, index)
            is_known = parts.image.topics.partition(*place) is not None
            errors[place] = error or (ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return errors


def _may_write(permissions: Permissions, topic: Topic) -> bool:
    return topic.name not in INTERNAL_TOPICS and permissions.allows(
        Operation.WRITE, ResourceType.TOPIC, topic.name, references=len(topic.partitions)
    )


def _add(parts: Parts, transaction: Transaction, errors: Codes, version: int) -> Answer[Codes]:
    """Add one transaction's partitions; if one of them has an error, none is added."""
    if any(errors.values()):
        return Answer.of(
            {place: error or ErrorCode.OPERATION_NOT_ATTEMPTED for place, error in errors.items()}
        )
    ask = partial(
        parts.transactions.add_or_verify_partitions,
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        errors.keys(),
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
        if results:  # Kafka answers by partition, too
            topics.append(TopicResult(name=topic.name, results_by_partition=results))
    return topics


API = (
    Api(AddPartitionsToTxnRequest)
    .on_broker(lambda node: node, handle)
    .needs(
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "from version 4 on, which brokers send"),
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "up to version 3, which clients send"),
        (Operation.WRITE, ResourceType.TOPIC, "up to version 3, on each topic"),
    )
)
