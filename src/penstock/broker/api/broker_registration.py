"""BrokerRegistration (62, KIP-631): register a broker and assign it an epoch.

Versions 0 to 4. The broker is fenced at first. Since version 3 it reports the epoch in which it stopped
cleanly (KIP-966). Needs CLUSTER_ACTION on the cluster.

Versions:
- 1: `is_migrating_zk_broker` (KIP-866)
- 2: `log_dirs` (KIP-858)
- 3: `previous_broker_epoch` (KIP-966)
- 4: features whose range begins at 0 are listed too (KAFKA-17011)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.registration import register_broker
from penstock.protocol.messages import BrokerRegistrationRequest, BrokerRegistrationResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await controller.submit(
        partial(register_broker, request=request, api_version=context.api_version, now_ms=controller.now_ms)
    )


API = (
    Api(BrokerRegistrationRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
