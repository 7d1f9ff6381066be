"""AddRaftVoter (80): make a controller that follows the metadata log a voter (KIP-853).

Versions 0 and 1. Version 1 may request an answer before the change is committed (KIP-1186).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import AddRaftVoterRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.ADD_RAFT_VOTER


async def handle_as_controller(
    broker: Broker, request: AddRaftVoterRequest, context: RequestContext
) -> Message:
    return await broker.quorum.handle(request, context)
