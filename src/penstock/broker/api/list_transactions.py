"""ListTransactions (66): list the transactional ids coordinated here (KIP-664).

Versions 0 to 2: filters by state and producer id, by the time that a transaction has been open (version 1),
and by a pattern of the transactional id in RE2's syntax except `\\b` and `\\p` (version 2, KIP-1152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.LIST_TRANSACTIONS


async def handle(
    broker: Broker, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    try:
        return await broker.transactions.list(request)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
