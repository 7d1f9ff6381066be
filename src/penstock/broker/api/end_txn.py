"""EndTxn (26): commit or abort a transaction.

Versions 0 to 5. A client that uses version 5 runs its transactions by version 2 of the protocol (KIP-890):
the answer contains the epoch, and sometimes a new producer id, of its next transaction. Unlike in Kafka, if
this node leads all partitions of a transaction, its records are readable when the answer is sent. Needs WRITE
on the transactional id.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: the error PRODUCER_FENCED (KIP-588)
- 3: flexible encoding (KIP-482)
- 4: the error TRANSACTION_ABORTABLE (KIP-890)
- 5: the response has the producer id and epoch of the next transaction (KIP-890)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.coordination.transactions.runtime import TV0, TV2, fenced_error
from penstock.broker.network.answers import Answer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import EndTxnRequest, EndTxnResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext

FENCED_ERROR_VERSION = 2
EPOCH_BUMP_VERSION = 5
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle(
    transactions: TransactionCoordinatorRuntime, request: EndTxnRequest, context: RequestContext
) -> Answer[EndTxnResponse]:
    if not context.permissions.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ):
        return Answer.of(_refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    client_version = TV2 if context.api_version >= EPOCH_BUMP_VERSION else TV0
    answer = transactions.end_txn(request, client_version)
    return answer.then(lambda response: _in_version(response, context.api_version)).recover(
        lambda error: _refusal(error.code)
    )


def _refusal(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def _in_version(response: EndTxnResponse, version: int) -> EndTxnResponse:
    knows_fenced = version >= FENCED_ERROR_VERSION
    response.error_code = fenced_error(response.error_code, knows_fenced=knows_fenced)
    return response


API = (
    Api(EndTxnRequest)
    .on_broker(lambda node: node.transactions, handle)
    .needs((Operation.WRITE, ResourceType.TRANSACTIONAL_ID))
)
