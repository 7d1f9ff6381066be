"""AddOffsetsToTxn (25): prepare a transaction to commit offsets of a group.

Versions 0 to 4. The request adds the group's partition of `__consumer_offsets` to the transaction. Clients
that use transactions version 2 leave that to TxnOffsetCommit (KIP-890). Needs WRITE on the transactional id,
and READ on the group.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: the error PRODUCER_FENCED (KIP-588)
- 3: flexible encoding (KIP-482)
- 4: the error TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.coordination.groups.runtime import GROUP_METADATA_TOPIC
from penstock.broker.coordination.transactions.runtime import TV0, are_concurrent, fenced_error
from penstock.broker.network.answers import Answer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext

FENCED_ERROR_VERSION = 2


class Parts(Protocol):
    """The parts of the node that this API uses."""

    groups: GroupCoordinatorRuntime
    transactions: TransactionCoordinatorRuntime


def handle(
    parts: Parts, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Answer[AddOffsetsToTxnResponse]:
    permissions = context.permissions
    permissions.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    permissions.require(Operation.READ, ResourceType.GROUP, request.group_id)
    place = (GROUP_METADATA_TOPIC, parts.groups.partition_of(request.group_id))
    ask = partial(
        parts.transactions.add_or_verify_partitions,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [place],
        client_version=TV0,
    )
    codes = parts.transactions.ask_when_ended(request.transactional_id, ask, are_concurrent)
    return codes.then(lambda known: _answer(known[place], context.api_version))


def _answer(code: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    error = fenced_error(code, knows_fenced=version >= FENCED_ERROR_VERSION)
    return AddOffsetsToTxnResponse(error_code=error)


API = (
    Api(AddOffsetsToTxnRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.WRITE, ResourceType.TRANSACTIONAL_ID), (Operation.READ, ResourceType.GROUP))
)
