"""InitProducerId (22): an id for an idempotent producer. Versions 0 to 5.

A transactional id is refused with UNSUPPORTED_VERSION until this node coordinates transactions: clients take
that as final, where COORDINATOR_NOT_AVAILABLE would have them retry until they time out.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.INIT_PRODUCER_ID

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    half_given = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if half_given or request.transactional_id == "":
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refusal(ErrorCode.UNSUPPORTED_VERSION)
    return _next_producer_id(broker)


async def _next_producer_id(broker: Broker) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
