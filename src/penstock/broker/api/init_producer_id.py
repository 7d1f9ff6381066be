"""InitProducerId (22): assign a producer id, or take over a transactional id. Versions 0 to 6.

As in Kafka 4.3, version 6 is unstable: it is served if `unstable.api.versions.enable` is true.
Needs WRITE on the transactional id, and TWO_PHASE_COMMIT if an external coordinator decides its transactions.
An idempotent producer without an id needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679).

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: flexible encoding (KIP-482)
- 3: `producer_id` and `producer_epoch`, with which a producer requests its next epoch (KIP-360)
- 4: the error PRODUCER_FENCED (KIP-588)
- 5: the error TRANSACTION_ABORTABLE (KIP-890)
- 6: `enable2_pc` for transactions without a timeout, and `keep_prepared_txn`, which is refused (KIP-939)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.coordination.transactions.runtime import fenced_error
from penstock.broker.network.answers import Answer
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.producer_ids import ProducerIds
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.security.permissions import Permissions

FENCED_ERROR_VERSION = 4
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class Parts(Protocol):
    """The parts of the node that this API uses."""

    producer_ids: ProducerIds
    transactions: TransactionCoordinatorRuntime


def handle(
    parts: Parts, request: InitProducerIdRequest, context: RequestContext
) -> Answer[InitProducerIdResponse]:
    try:
        _check(context.permissions, request)
    except KafkaError as error:
        return Answer.of(_refusal(error.code))
    half_given = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if half_given or request.transactional_id == "":
        return Answer.of(_refusal(ErrorCode.INVALID_REQUEST))
    if request.transactional_id is None:
        return Answer.working(_next_producer_id(parts))
    answer = parts.transactions.init_producer_id(request)
    return answer.then(lambda response: _in_version(response, context.api_version)).recover(
        lambda error: _refusal(error.code)
    )


def _check(permissions: Permissions, request: InitProducerIdRequest) -> None:
    """Raise KafkaError unless the client may be this producer."""
    if request.transactional_id is not None:
        resource = (ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        permissions.require(Operation.WRITE, *resource)
        if request.enable2_pc:
            permissions.require(Operation.TWO_PHASE_COMMIT, *resource)
    elif not permissions.allows(
        Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False
    ) and not permissions.allows_some(Operation.WRITE, ResourceType.TOPIC):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _in_version(response: InitProducerIdResponse, version: int) -> InitProducerIdResponse:
    knows_fenced = version >= FENCED_ERROR_VERSION
    response.error_code = fenced_error(response.error_code, knows_fenced=knows_fenced)
    return response


async def _next_producer_id(parts: Parts) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await parts.producer_ids.next(), producer_epoch=0)
    except KafkaError as error:
        return _refusal(error.code)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


API = (
    Api(InitProducerIdRequest)
    .on_broker(lambda node: node, handle)
    .needs(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "with a transactional id"),
        (
            *(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID),
            "if an external coordinator decides its transactions",
        ),
        (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "without a transactional id"),
        (Operation.WRITE, ResourceType.TOPIC, "on any topic, instead of IDEMPOTENT_WRITE"),
    )
)
