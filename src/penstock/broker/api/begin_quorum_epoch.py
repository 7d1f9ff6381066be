"""BeginQuorumEpoch (53): a new leader of the metadata quorum announces itself.

Versions 0 and 1. A second leader in the same epoch, which is impossible without a defect, gets
INVALID_REQUEST; Kafka would terminate. Needs CLUSTER_ACTION on the cluster.

Versions:
- 1: flexible encoding (KIP-482); the voter's id and directory id, the leader's endpoints (KIP-853)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import BeginQuorumEpochRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(
    quorum: Quorum, request: BeginQuorumEpochRequest, context: RequestContext
) -> Message:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await quorum.handle(request, context)


API = (
    Api(BeginQuorumEpochRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
