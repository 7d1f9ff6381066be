"""Vote (52): a candidate for the leadership of the metadata quorum requests this node's vote.

Versions 0 to 2: from version 1 on voters have directory ids (KIP-853), from version 2 on the request may be a
pre-vote (KIP-996). Needs CLUSTER_ACTION on the cluster.

Versions:
- 1: the voter's id, directory ids, the leader's endpoint (KIP-853)
- 2: `pre_vote` (KIP-996)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import VoteRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(quorum: Quorum, request: VoteRequest, context: RequestContext) -> Message:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await quorum.handle(request, context)


API = (
    Api(VoteRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
