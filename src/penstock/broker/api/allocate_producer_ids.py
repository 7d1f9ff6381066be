"""AllocateProducerIds (67, KIP-730): assign a broker a block of producer ids.

Version 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.producer_ids import allocate_producer_ids
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.ALLOCATE_PRODUCER_IDS


async def handle_as_controller(
    broker: Broker, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    return await broker.controller.submit(partial(allocate_producer_ids, request=request))
