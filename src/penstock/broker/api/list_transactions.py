"""ListTransactions (66): the transactional ids coordinated here (KIP-664).

Versions 0 to 2: filters by state and producer id, by how long a transaction has been open (version 1), and
by a pattern of the transactional id (version 2, KIP-1152), as RE2 has them but for `\\b` and `\\p`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.LIST_TRANSACTIONS


async def handle(
    broker: Broker, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    try:
        return await broker.transactions.list(request)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
