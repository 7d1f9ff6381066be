"""UpdateRaftVoter (82): a voter reports its endpoints and supported versions (KIP-853).

Version 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.UPDATE_RAFT_VOTER


async def handle_as_controller(
    broker: Broker, request: UpdateRaftVoterRequest, context: RequestContext
) -> Message:
    return await broker.quorum.handle(request, context)
