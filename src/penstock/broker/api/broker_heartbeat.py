"""BrokerHeartbeat (63, KIP-631): a broker renews its session and asks to be unfenced or to stop.

It also reports the metadata offset that it has read. Versions 0 to 2. Needs CLUSTER_ACTION on the cluster.
Differences from Kafka:
- a broker that was allowed to stop may register again at once, without waiting for its session to time out;
- a controller whose process stood still extends all sessions by that time;
- a controller that finds a broker's port closed need not wait for the session timeout (`broker_watch`).

Versions:
- 1: `offline_log_dirs` (KIP-858)
- 2: `cordoned_log_dirs` (KIP-1066)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.registration import process_heartbeat
from penstock.protocol.messages import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await controller.submit(partial(process_heartbeat, request=request, now_ms=controller.now_ms))


API = (
    Api(BrokerHeartbeatRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
