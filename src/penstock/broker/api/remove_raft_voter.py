"""RemoveRaftVoter (81): remove a voter from the metadata quorum (KIP-853).

Version 0. A leader that is removed resigns once the removal is committed. Needs ALTER on the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import RemoveRaftVoterRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(
    quorum: Quorum, request: RemoveRaftVoterRequest, context: RequestContext
) -> Message:
    context.permissions.require(Operation.ALTER)
    return await quorum.handle(request, context)


API = (
    Api(RemoveRaftVoterRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
