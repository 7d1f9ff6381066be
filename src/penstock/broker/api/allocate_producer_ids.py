"""AllocateProducerIds (67, KIP-730): assign a broker a block of producer ids.

Version 0. Needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.producer_ids import allocate_producer_ids
from penstock.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await controller.submit(partial(allocate_producer_ids, request=request))


API = (
    Api(AllocateProducerIdsRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
