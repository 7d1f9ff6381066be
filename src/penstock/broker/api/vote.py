"""Vote (52): a candidate for the leadership of the metadata quorum requests this node's vote.

Versions 0 to 2: from version 1 on voters have directory ids (KIP-853), from version 2 on the request may be a
pre-vote (KIP-996).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import VoteRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.VOTE


async def handle_as_controller(broker: Broker, request: VoteRequest, context: RequestContext) -> Message:
    return await broker.quorum.handle(request, context)
