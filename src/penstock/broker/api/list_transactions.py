"""ListTransactions (66): list the transactional ids coordinated here (KIP-664).

Versions 0 to 2: filters by state and producer id, by the time that a transaction has been open (version 1),
and by a pattern of the transactional id in RE2's syntax except `\\b` and `\\p` (version 2, KIP-1152).
Transactional ids without DESCRIBE are left out.

Versions:
- 1: `duration_filter` (KIP-994)
- 2: `transactional_id_pattern` (KIP-1152)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ListTransactionsRequest, ListTransactionsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.security.permissions import Permissions

ListedTransaction = ListTransactionsResponse.TransactionState


async def handle(
    transactions: TransactionCoordinatorRuntime, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    try:
        response = await transactions.list(request)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    if not context.permissions.is_unrestricted:
        response.transaction_states = await in_turns(
            _described(response.transaction_states, context.permissions)
        )
    return response


def _described(listed: list[ListedTransaction], permissions: Permissions) -> Steps[list[ListedTransaction]]:
    """The transactions that the client may see."""
    described = []
    for transaction in listed:
        yield
        if permissions.allows(
            Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
        ):
            described.append(transaction)
    return described


API = (
    Api(ListTransactionsRequest)
    .on_broker(lambda node: node.transactions, handle)
    .needs((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "to list the transactional id"))
)
