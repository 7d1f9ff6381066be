"""EndQuorumEpoch (54): the leader of the metadata quorum resigns and names preferred successors.

Versions 0 and 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import EndQuorumEpochRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.END_QUORUM_EPOCH


async def handle_as_controller(
    broker: Broker, request: EndQuorumEpochRequest, context: RequestContext
) -> Message:
    return await broker.quorum.handle(request, context)
