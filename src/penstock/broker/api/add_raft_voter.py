"""AddRaftVoter (80): make a controller that follows the metadata log a voter (KIP-853).

Versions 0 and 1. Version 1 may request an answer before the change is committed (KIP-1186).
Needs ALTER on the cluster.

Versions:
- 1: `ack_when_committed` (KIP-1186)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import AddRaftVoterRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(
    quorum: Quorum, request: AddRaftVoterRequest, context: RequestContext
) -> Message:
    context.permissions.require(Operation.ALTER)
    return await quorum.handle(request, context)


API = (
    Api(AddRaftVoterRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
