"""EndQuorumEpoch (54): the leader of the metadata quorum resigns and names preferred successors.

Versions 0 and 1. Needs CLUSTER_ACTION on the cluster.

Versions:
- 1: flexible encoding (KIP-482); successors with directory ids, the leader's endpoints (KIP-853)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import EndQuorumEpochRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(
    quorum: Quorum, request: EndQuorumEpochRequest, context: RequestContext
) -> Message:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await quorum.handle(request, context)


API = (
    Api(EndQuorumEpochRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
