"""DescribeTransactions (65): report the state of transactions coordinated here (KIP-664). Version 0.

Needs DESCRIBE on each transactional id. Topics of a transaction without DESCRIBE are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.security.permissions import Permissions


def handle(
    transactions: TransactionCoordinatorRuntime, request: DescribeTransactionsRequest, context: RequestContext
) -> Answer[DescribeTransactionsResponse]:
    return in_turns(_answer(transactions, request, context.permissions))


def _answer(
    transactions: TransactionCoordinatorRuntime,
    request: DescribeTransactionsRequest,
    permissions: Permissions,
) -> Steps[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for transactional_id in request.transactional_ids:
        yield
        if permissions.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            state = transactions.describe(transactional_id)
        else:
            state = DescribeTransactionsResponse.TransactionState(
                transactional_id=transactional_id,
                error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            )
        state.topics = [
            topic
            for topic in state.topics
            if permissions.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        ]
        response.transaction_states.append(state)
    return response


API = (
    Api(DescribeTransactionsRequest)
    .on_broker(lambda node: node.transactions, handle)
    .needs(
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        (Operation.DESCRIBE, ResourceType.TOPIC, "to see that the transaction has it"),
    )
)
