"""DescribeTransactions (65): report the state of transactions coordinated here (KIP-664). Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext


def handle(
    transactions: TransactionCoordinatorRuntime, request: DescribeTransactionsRequest, context: RequestContext
) -> Answer[DescribeTransactionsResponse]:
    return in_turns(_answer(transactions, request))


def _answer(
    transactions: TransactionCoordinatorRuntime, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for transactional_id in request.transactional_ids:
        yield
        response.transaction_states.append(transactions.describe(transactional_id))
    return response


API = Api(DescribeTransactionsRequest).on_broker(lambda node: node.transactions, handle)
