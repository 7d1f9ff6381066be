"""ListTransactions (66): list the transactional ids coordinated here (KIP-664).

Versions 0 to 2: filters by state and producer id, by the time that a transaction has been open (version 1),
and by a pattern of the transactional id in RE2's syntax except `\\b` and `\\p` (version 2, KIP-1152).

Versions:
- 1: `duration_filter` (KIP-994)
- 2: `transactional_id_pattern` (KIP-1152)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext


async def handle(
    transactions: TransactionCoordinatorRuntime, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    try:
        return await transactions.list(request)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)


API = Api(ListTransactionsRequest).on_broker(lambda node: node.transactions, handle)
