"""RemoveRaftVoter (81): remove a voter from the metadata quorum (KIP-853).

Version 0. A leader that is removed resigns once the removal is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.REMOVE_RAFT_VOTER


async def handle_as_controller(
    broker: Broker, request: RemoveRaftVoterRequest, context: RequestContext
) -> Message:
    return await broker.quorum.handle(request, context)
