"""DescribeQuorum (55): report leader, voters and observers of the metadata quorum, and their progress.

Versions 0 to 2. Brokers forward the request to the active controller.
Needs DESCRIBE on the cluster.

Versions:
- 1: the times at which a replica last fetched and was last caught up (KIP-836)
- 2: directory ids, error messages, the listeners of the nodes (KIP-853)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import DescribeQuorumRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(
    quorum: Quorum, request: DescribeQuorumRequest, context: RequestContext
) -> Message:
    context.permissions.require(Operation.DESCRIBE)
    return await quorum.handle(request, context)


API = (
    Api(DescribeQuorumRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.DESCRIBE, ResourceType.CLUSTER))
)
