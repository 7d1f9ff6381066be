"""DescribeTransactions (65): report the state of transactions coordinated here (KIP-664). Version 0."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.DESCRIBE_TRANSACTIONS


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    return in_turns(_answer(broker, request))


def _answer(broker: Broker, request: DescribeTransactionsRequest) -> Steps[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for transactional_id in request.transactional_ids:
        yield
        response.transaction_states.append(broker.transactions.describe(transactional_id))
    return response
