"""FetchSnapshot (59): send a piece of a snapshot of the metadata log to a node that is too far behind.

Versions 0 and 1. The leader of the quorum answers; the snapshot that formatting writes is never sent.
Needs CLUSTER_ACTION on the cluster.

Versions:
- 1: `replica_directory_id`, the leader's endpoint (KIP-853)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.messages import FetchSnapshotRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.protocol.codec import Message


async def handle_as_controller(
    quorum: Quorum, request: FetchSnapshotRequest, context: RequestContext
) -> Message:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await quorum.handle(request, context)


API = (
    Api(FetchSnapshotRequest)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
