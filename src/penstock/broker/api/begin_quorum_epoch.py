"""BeginQuorumEpoch (53): a new leader of the metadata quorum announces itself.

Versions 0 and 1. A second leader in the same epoch, which is impossible without a defect, gets
INVALID_REQUEST; Kafka would terminate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import BeginQuorumEpochRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.BEGIN_QUORUM_EPOCH


async def handle_as_controller(
    broker: Broker, request: BeginQuorumEpochRequest, context: RequestContext
) -> Message:
    return await broker.quorum.handle(request, context)
