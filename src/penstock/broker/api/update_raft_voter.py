"""UpdateRaftVoter (82): a voter reports its endpoints and supported versions (KIP-853).

Version 0. Needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import UpdateRaftVoterRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(
    quorum: Quorum, request: UpdateRaftVoterRequest, context: RequestContext
) -> Message:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await quorum.handle(request, context)


API = (
    Api(UpdateRaftVoterRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
