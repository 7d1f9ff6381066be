"""BrokerHeartbeat (63, KIP-631): a broker lives, tells how far it has read, and asks to serve or to stop.

Versions 0 to 2. Different from Kafka: a broker that was told to stop may register again at once, without
waiting for its session to time out; a controller whose process stood still extends all sessions by that; and
one that finds a broker's port closed need not wait for the session either (`broker_watch`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.registration import process_heartbeat
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.BROKER_HEARTBEAT


async def handle_as_controller(
    broker: Broker, request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse:
    return await broker.controller.submit(
        partial(process_heartbeat, request=request, now_ms=broker.controller.now_ms)
    )
